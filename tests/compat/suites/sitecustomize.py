"""Hides nvJitLink from Python programs if COMPAT_HIDE_NVJITLINK is set.

It makes machine code, which the software GPU does not run; without it Numba and cuda.core link through the driver, and
hand over PTX. On a machine of one's own one does not install it; here is what a machine that has it needs.
"""

import os


def hide():
    try:
        from cuda import pathfinder
    except ImportError:
        return
    load = pathfinder.load_nvidia_dynamic_lib

    def load_others(name):
        if name == "nvJitLink":
            raise pathfinder.DynamicLibNotFoundError(f"{name} is hidden")
        return load(name)

    pathfinder.load_nvidia_dynamic_lib = load_others


if os.environ.get("COMPAT_HIDE_NVJITLINK"):
    hide()
