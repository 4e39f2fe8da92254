"""The Jinja environment. It is imported at the first rendering, as Jinja is large."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import jinja2
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream

from .bytecode import Bytecode
from .line_directives import marked


class _SourceLines(Extension):
    """Marks the text of templates with its origin."""

    def filter_stream(self, stream: TokenStream) -> Iterable[Token]:
        return marked(list(stream), stream.name or "<template>")


def environment(load: Callable[[str], Any], bytecode: Bytecode) -> jinja2.Environment:
    """An environment of the templates that ``load`` finds."""
    return jinja2.Environment(
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
        comment_start_string="<#",
        comment_end_string="#>",
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        loader=jinja2.FunctionLoader(load),
        bytecode_cache=cast(jinja2.BytecodeCache, bytecode),
        extensions=[_SourceLines],
    )
