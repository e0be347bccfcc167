"""Image archives from files: what containerd's `images import` reads."""

import hashlib
import io
import json
import os
import subprocess
import tarfile


def needs(path):
    """The files that a program or library loads, by their names in the image and their places here."""
    said = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
    found = {}
    for line in said.splitlines():
        name, arrow, place = line.strip().partition(" => ")
        place = (place if arrow else name).split(" (")[0].strip()
        if place.startswith("/"):
            inside = name.split(" (")[0].strip() if not arrow else place
            found[inside] = os.path.realpath(place)
    return found


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def tree(directory, prefix):
    """All files and links of a directory, as paths in the image."""
    files, links = {}, {}
    for folder, folders, names in os.walk(directory):
        below = os.path.relpath(folder, directory)
        for name in names + [of for of in folders if os.path.islink(os.path.join(folder, of))]:
            path = os.path.join(folder, name)
            inside = os.path.normpath(os.path.join(prefix, below, name))
            if os.path.islink(path):
                links[inside] = os.readlink(path)
            else:
                files[inside] = path
    return files, links


def write(archive, name, files, links=(), command=None):
    """Writes an image of one layer: files (and the libraries that they need), links, and empty directories."""
    links = dict(links)
    for path in list(files.values()):
        if is_elf(path):
            for inside, place in needs(path).items():
                files.setdefault(inside, place)
    layer = io.BytesIO()
    seen = set()
    with tarfile.open(fileobj=layer, mode="w") as tar:

        def folder(path):
            if path in ("", "/") or path in seen:
                return
            folder(os.path.dirname(path))
            seen.add(path)
            info = tarfile.TarInfo(path.lstrip("/"))
            info.type, info.mode = tarfile.DIRTYPE, 0o1777 if path == "/tmp" else 0o755
            tar.addfile(info)

        for path in ("/tmp", "/etc", "/proc", "/dev", "/sys", "/run", "/var/log"):
            folder(path)
        for inside, place in sorted(files.items()):
            folder(os.path.dirname(inside))
            info = tarfile.TarInfo(inside.lstrip("/"))
            info.size, info.mode = os.path.getsize(place), 0o755
            with open(place, "rb") as file:
                tar.addfile(info, file)
        for inside, target in sorted(links.items()):
            folder(os.path.dirname(inside))
            info = tarfile.TarInfo(inside.lstrip("/"))
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
    layer = layer.getvalue()
    digest = hashlib.sha256(layer).hexdigest()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/usr/bin:/bin"], "Entrypoint": command or []},
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest]},
    }
    config = json.dumps(config).encode()
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    layer_name = digest + "/layer.tar"
    manifest = [{"Config": config_name, "RepoTags": [name], "Layers": [layer_name]}]
    with tarfile.open(archive, "w") as tar:
        for part, data in (
            (config_name, config),
            (layer_name, layer),
            ("manifest.json", json.dumps(manifest).encode()),
        ):
            info = tarfile.TarInfo(part)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
