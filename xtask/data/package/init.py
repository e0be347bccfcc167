"""openmps, installed as a wheel: where its program is."""

import os
import sysconfig

__all__ = ["find_openmps_bin"]


def find_openmps_bin():
    """Return the path of the program openmps of this installation.

    Raises FileNotFoundError if it is in none of the directories where installers put programs.
    """
    # pip install --target puts the program beside the module.
    beside = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin")
    folders = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", scheme="posix_user"), beside]
    paths = [os.path.join(folder, "openmps") for folder in folders]
    for path in paths:
        if os.path.isfile(path):
            return path
    raise FileNotFoundError("openmps is not at " + ", ".join(paths))
