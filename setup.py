"""The C extensions; everything else about the package stands in pyproject.toml.

All are optional: where no C compiler is found, or the Python's internals are unknown to eval_frame.c, the package
installs without them, and `frontend/hook.py`, `runtime/launch.py` and `runtime/launch_cuda.py` use their pure Python
doors.
"""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "minicompile.frontend._eval_frame",
            ["minicompile/frontend/eval_frame.c"],
            depends=["minicompile/frontend/cpython_frames.h"],
            extra_compile_args=["-std=gnu11"],
            optional=True,
        ),
        Extension("minicompile.runtime._launch", ["minicompile/runtime/launch.c"], optional=True),
        Extension("minicompile.runtime._launch_cuda", ["minicompile/runtime/launch_cuda.c"], optional=True),
    ]
)
