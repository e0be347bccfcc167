"""python -m openmps: the program openmps in this process's place."""

import os
import sys

from openmps import find_openmps_bin

if __name__ == "__main__":
    program = find_openmps_bin()
    os.execv(program, [program, *sys.argv[1:]])
