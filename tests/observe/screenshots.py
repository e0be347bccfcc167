#!/usr/bin/env python3
"""Makes the pictures of docs/observe: the page of `openmps web` in Chromium, `openmps top` in a terminal.

    screenshots.py DIST [--output DIR] [--seconds 75]

DIST is an installation, made by `cargo xtask dist --release`. Needs chromium and tmux. Runs a mix of
samples on the software GPU, with a daemon of its own, and waits so that the charts have a history.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import browser  # noqa: E402
import check  # noqa: E402

# Options of `openmps run`, and a sample with its arguments.
MIX = [(["--class", "latency"], ["mlp_inference"]),
       ([], ["n_body", "--blocks", "3", "--size", "2048"]),
       ([], ["spin", "--kernel", "clock", "--work", "30000000"]),
       (["--class", "batch"], ["convnet_inference", "--blocks", "2"]),
       ([], ["vector_add", "--size", "1048576"])]
COLUMNS, LINES = 112, 16
# A terminal's colours, and the size of a cell, pixels.
BACK, TEXT = "#14171b", "#e6e8ea"
COLOURS = ["#2c3239", "#ff8a80", "#3fcf9b", "#f2b04e", "#78a9ff", "#d6a2ff", "#6fd3e0", "#e6e8ea",
           "#4a535d", "#ff8a80", "#3fcf9b", "#f2b04e", "#78a9ff", "#d6a2ff", "#6fd3e0", "#ffffff"]
CHOSEN = "#2b3a55"
WIDE, TALL = 9, 20


def cells(text):
    """Lines of (character, colour, bold, background) of what tmux has captured with its escapes."""
    colour, bold, back = TEXT, False, None
    for line in text.split("\n"):
        row = []
        for escape, character in re.findall(r"\x1b\[([\d;]*)m|(.)", line):
            if character:
                row.append((character, colour, bold, back))
                continue
            codes = [int(part or 0) for part in escape.split(";")]
            while codes:
                code = codes.pop(0)
                if code == 0:
                    colour, bold, back = TEXT, False, None
                elif code == 1:
                    bold = True
                elif code == 7:
                    back = CHOSEN
                elif code == 27:
                    back = None
                elif code == 39:
                    colour = TEXT
                elif code == 38 and codes[:1] == [5]:
                    colour = COLOURS[codes[1] % 16]
                    codes = codes[2:]
                elif 30 <= code <= 37:
                    colour = COLOURS[code - 30]
                elif 90 <= code <= 97:
                    colour = COLOURS[code - 82]
        yield row


def is_block(character):
    return "▁" <= character <= "▏"


def picture(text, columns, lines):
    """The terminal as SVG: letters as text, blocks as rectangles, so that they meet."""
    width, height = columns * WIDE + 32, lines * TALL + 32
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
           f'<rect width="{width}" height="{height}" rx="10" fill="{BACK}"/>',
           f'<g font-family="ui-monospace, DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="15" fill="{TEXT}" '
           'xml:space="preserve">']
    for at, row in enumerate(cells(text)):
        y = 16 + at * TALL
        column = 0
        while column < len(row):
            character, colour, bold, back = row[column]
            x = 16 + column * WIDE
            if back:
                out.append(f'<rect x="{x}" y="{y}" width="{WIDE}" height="{TALL}" fill="{back}"/>')
            if is_block(character):
                tall = wide = 1
                if character <= "█":
                    tall = (ord(character) - ord("▁") + 1) / 8
                else:
                    wide = (ord("▏") - ord(character) + 1) / 8
                part = tall * (TALL - 6)
                out.append(f'<rect x="{x}" y="{y + TALL - 3 - part:g}" width="{wide * WIDE:g}" height="{part:g}" fill="{colour}"/>')
            if character == " " or is_block(character):
                column += 1
                continue
            end = column
            while end < len(row) and row[end][1:] == row[column][1:] and row[end][0] != " " and not is_block(row[end][0]):
                if end > column and back:
                    out.append(f'<rect x="{16 + end * WIDE}" y="{y}" width="{WIDE}" height="{TALL}" fill="{back}"/>')
                end += 1
            word = "".join(cell[0] for cell in row[column:end])
            for special, name in [("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")]:
                word = word.replace(special, name)
            weight = ' font-weight="700"' if bold else ""
            fill = "" if colour == TEXT else f' fill="{colour}"'
            out.append(f'<text x="{x}" y="{y + 15}" textLength="{(end - column) * WIDE}"{weight}{fill}>{word}</text>')
            column = end
    return "\n".join([*out, "</g></svg>"]) + "\n"


def take_top(scene, output, keys, name):
    # Of each picture its own: tmux's server of the one before may still be ending.
    session = f"openmps-{name}-{scene.directory.name}"
    tmux = lambda *words: subprocess.run(["tmux", "-L", session, *words], check=True, text=True, capture_output=True)
    tmux("new-session", "-d", "-x", str(COLUMNS), "-y", str(LINES), "-e", "TERM=xterm-256color",
         "-e", f"CUDA_MPS_PIPE_DIRECTORY={scene.directory}/pipe", f"{scene.dist}/bin/openmps top")
    try:
        time.sleep(15)
        for key in keys:
            tmux("send-keys", key)
            time.sleep(2)
        text = tmux("capture-pane", "-e", "-p").stdout.rstrip("\n")
        lines = min(LINES, text.count("\n") + 1)
        (output / f"{name}.svg").write_text(picture(text, COLUMNS, lines))
    finally:
        tmux("kill-server")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("dist", type=Path)
    parser.add_argument("--output", type=Path, default=HERE.parents[1] / "docs/observe")
    parser.add_argument("--seconds", type=float, default=75)
    arguments = parser.parse_args()
    check.with_readers()
    from PIL import Image
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(prefix="openmps-pictures-") as directory:
        scene = check.Scene(arguments.dist.resolve(), Path(directory))
        scene.openmps("up")
        try:
            for options, (name, *words) in MIX:
                scene.start(scene.dist / "bin/openmps", "run", "-q", *options, "--", scene.sample(name), *words,
                            "--seconds", "600")
            check.until("the programs run", lambda: len(MIX) == sum(
                c["kernels"] > 0 for s in scene.shell("report")["servers"] for c in s["clients"]))
            with check.web(scene) as (base, token), sync_playwright() as playwright:
                page = browser.launch(playwright).new_page(viewport={"width": 1280, "height": 900}, bypass_csp=True)
                page.goto(f"{base}/?token={token}")
                time.sleep(arguments.seconds)
                page.select_option("#length", "200")
                browser.record(page)
                browser.look(page)
                page.mouse.move(2, 2)
                page.evaluate("scrollTo(0, 0)")
                for scheme in ["light", "dark"]:
                    page.emulate_media(color_scheme=scheme)
                    page.wait_for_timeout(500)
                    # Down to the timeline: what comes behind it is text.
                    box = page.locator("section:has(#timeline)").bounding_box()
                    path = arguments.output / f"web-{scheme}.png"
                    page.screenshot(path=path, full_page=True, clip={
                        "x": 0, "y": 0, "width": 1280, "height": box["y"] + box["height"] + 12})
                    # A third of the bytes, and the eye sees no difference.
                    Image.open(path).convert("RGB").quantize(256).save(path, optimize=True)
            take_top(scene, arguments.output, [], "top")
            take_top(scene, arguments.output, ["k"], "top-kernels")
        finally:
            scene.end()
            scene.openmps("down", "--timeout", "0")


if __name__ == "__main__":
    main()
