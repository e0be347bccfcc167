"""gpustat and nvitop print the device and do not fail."""

import pathlib
import subprocess
import sys

bin_directory = pathlib.Path(sys.executable).parent
for command in (["gpustat", "--no-color", "-cpu"], ["nvitop", "--once", "--ascii"]):
    result = subprocess.run([bin_directory / command[0], *command[1:]], capture_output=True, text=True, timeout=60)
    output = result.stdout + result.stderr
    assert result.returncode == 0, (command, output)
    assert "software GPU" in output, (command, output)
    assert "Traceback" not in output, output
