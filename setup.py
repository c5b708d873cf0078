"""The C extensions; everything else about the package stands in pyproject.toml.

All are optional: where no C compiler is found, or the Python's internals are unknown to eval_frame.c, the package
installs without them, and the Python module beside each of them does without.
"""

from setuptools import Extension, setup

NATIVE = (
    ("frontend", "dispatch"), ("guards", "disjoint"), ("guards", "tensor_check"), ("guards", "unchanged"),
    ("guards", "walk"), ("runtime", "launch"), ("runtime", "launch_cuda"), ("runtime", "products"),
)  # fmt: skip

HEADERS = (
    "guards/unchanged_notes", "runtime/torch_tensor", "runtime/run", "runtime/cuda_driver", "runtime/cuda_chain",
)  # fmt: skip

setup(
    ext_modules=[
        Extension(
            "minicompile.frontend._eval_frame",
            ["minicompile/frontend/eval_frame.c"],
            depends=["minicompile/frontend/cpython_frames.h"],
            extra_compile_args=["-std=gnu11"],
            optional=True,
        ),
        *(
            Extension(
                f"minicompile.{folder}._{name}",
                [f"minicompile/{folder}/{name}.c"],
                depends=[f"minicompile/{name}.h" for name in HEADERS],
                extra_compile_args=["-std=gnu11", "-O2"],
                optional=True,
            )
            for folder, name in NATIVE
        ),
    ]
)
