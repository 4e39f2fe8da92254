"""The engine of differentiation: the tape, which knows neither arrays nor kernels, and its algebra of cotangents."""
