"""A cache of Jinja's compiled templates: recorded when a bundle is built, and looked up in bundles and on the disk."""

from __future__ import annotations

import importlib.util
import marshal
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2
    from jinja2.bccache import Bucket


class Bytecode:
    """Python's code of templates, by a hash of their sources and of the versions of Python and Jinja.

    A ``jinja2.BytecodeCache``, though not derived from it: Jinja is imported at the first rendering.

    Attributes:
        compiled: name and code of the templates that this process has compiled or looked up, by hash; None if not kept.
        find: looks a hash up in the loaded bundles, and on the disk.
        keep: keeps the code for a hash on the disk.
    """

    def __init__(self) -> None:
        self.compiled: dict[str, tuple[str, bytes]] | None = None
        self.find: Callable[[str], bytes | None] | None = None
        self.keep: Callable[[str, bytes], None] | None = None

    def get_bucket(
        self, environment: jinja2.Environment, name: str, filename: str | None, source: str
    ) -> Bucket:
        """See :class:`jinja2.BytecodeCache`."""
        from hashlib import sha256

        import jinja2
        from jinja2.bccache import Bucket

        parts = (importlib.util.MAGIC_NUMBER.hex(), jinja2.__version__, name, source)
        bucket = Bucket(environment, sha256("\0".join(parts).encode()).hexdigest(), name)
        code = None if self.find is None else self.find(bucket.key)
        if code is not None:
            if self.compiled is not None:
                self.compiled[bucket.key] = name, code
            # The template may lie in another folder than where it was compiled.
            bucket.code = _moved(marshal.loads(code), filename or "<template>")
        return bucket

    def set_bucket(self, bucket: Bucket) -> None:
        """See :class:`jinja2.BytecodeCache`."""
        code = marshal.dumps(bucket.code)
        if self.compiled is not None:
            self.compiled[bucket.key] = bucket.checksum, code
        if self.keep is not None:
            self.keep(bucket.key, code)


def _moved(code: CodeType, filename: str) -> CodeType:
    """Code as if it were of another file."""
    inner = tuple(_moved(one, filename) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_filename=filename, co_consts=inner)
