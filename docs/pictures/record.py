#!/usr/bin/env python3
"""Makes docs/pictures/quickstart.svg from a run of the quickstart as it shows itself on a terminal.

    cargo build --release
    python3 docs/pictures/record.py target/release/unfazed > docs/pictures/quickstart.svg

Needs Python 3.9 and nothing else. The picture plays the run at a pace that can be read, then begins anew; where moving
pictures are not wanted (`prefers-reduced-motion`) its end stands still.
"""

import html
import os
import re
import subprocess
import sys
import tempfile

COLUMNS, ROWS = 104, 24
CELL, LINE, PAD, TOP = 8.0, 18.0, 14.0, 34.0
PER_LINE, SLOWER, END = 0.16, 3.0, 5.0
BACK, FRONT = "#11151c", "#d5dae3"
COLOURS = {
    30: "#5b6678", 31: "#ff7b72", 32: "#7ee787", 33: "#f2cc60", 34: "#79c0ff", 35: "#d2a8ff", 36: "#76e3ea", 37: "#e6edf3",
    90: "#8b96a8", 91: "#ffa198", 92: "#a5f0ab", 93: "#ffe08a", 94: "#a5d6ff", 95: "#e2c5ff", 96: "#a8f0f4", 97: "#ffffff",
}
ESCAPE = re.compile(r"\x1b\[([0-9;]*)m")


def record(binary):
    """What the quickstart prints, colours included."""
    with tempfile.TemporaryDirectory() as sessions:
        env = {**os.environ, "UNFAZED_SESSIONS": sessions, "COLUMNS": "1000"}
        env.pop("NO_COLOR", None)
        command = [binary, "run", "--quiet", "--color", "always", "examples/quickstart/agent.yaml"]
        run = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True, check=False)
        if run.returncode != 0:
            sys.exit(f"the quickstart failed with {run.returncode}:\n{run.stdout}")
        return run.stdout.replace(sessions, ".unfazed/sessions")


def pieces(line):
    """The runs of one line that look alike: text, colour, bold, faint."""
    colour, bold, faint, at = None, False, False, 0
    for escape in ESCAPE.finditer(line):
        yield line[at:escape.start()], colour, bold, faint
        at = escape.end()
        for code in (int(code or 0) for code in escape[1].split(";")):
            if code == 0:
                colour, bold, faint = None, False, False
            elif code == 1:
                bold = True
            elif code == 2:
                faint = True
            elif code in COLOURS:
                colour = COLOURS[code]
    yield line[at:], colour, bold, faint


def drawn(line):
    """One line as the inside of a `text` element, cut at the edge of the window."""
    left, spans = COLUMNS, []
    for text, colour, bold, faint in pieces(line):
        text, cut = text[:left], len(text) > left
        if cut:
            text = text[:-1] + "…"
        left -= len(text)
        if text:
            style = (f' fill="{colour}"' if colour else "") + (' font-weight="bold"' if bold else "")
            style += ' opacity=".6"' if faint else ""
            text = html.escape(text)
            spans.append(f"<tspan{style}>{text}</tspan>" if style else text)
        if cut:
            break
    return "".join(spans)


def moments(lines):
    """When each line appears, in seconds from the start of the picture."""
    now, last, found = 0.0, 0.0, []
    for line in lines:
        told = re.match(r"\s*(\d+\.\d+)s", ESCAPE.sub("", line))
        if told:
            now += (float(told[1]) - last) * SLOWER
            last = float(told[1])
        now += PER_LINE
        found.append(now)
    return found


def keyframes(name, values, times, whole):
    """A step for each line."""
    steps = [f"0%{{transform:translateY({values[0]:g}px)}}"]
    for value, time in zip(values[1:], times):
        steps.append(f"{100 * time / whole:.2f}%{{transform:translateY({value:g}px)}}")
    steps.append(f"100%{{transform:translateY({values[-1]:g}px)}}")
    return f"@keyframes {name}{{{''.join(steps)}}}"


def picture(lines):
    times = moments(lines)
    whole = times[-1] + END
    up = [-LINE * max(0, shown - ROWS) for shown in range(len(lines) + 1)]
    down = [LINE * min(shown, ROWS) for shown in range(len(lines) + 1)]
    width, height = COLUMNS * CELL + 2 * PAD, ROWS * LINE + TOP + PAD
    play = f"{whole:.1f}s step-end infinite"
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img"')
    print('     aria-label="unfazed runs the quickstart: it waits, retries, corrects, switches a tool off, and ends with a report">')
    print("<style>")
    print(f"text{{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:{FRONT};white-space:pre}}")
    print(f".up{{transform:translateY({up[-1]:g}px);animation:up {play}}}")
    print(f".down{{transform:translateY({down[-1]:g}px);animation:down {play}}}")
    print(keyframes("up", up, times, whole))
    print(keyframes("down", down, times, whole))
    print("@media(prefers-reduced-motion){.up,.down{animation:none}}")
    print("</style>")
    print(f'<rect width="{width:g}" height="{height:g}" rx="8" fill="{BACK}"/>')
    for place, colour in enumerate(("#ff5f57", "#febc2e", "#28c840")):
        print(f'<circle cx="{PAD + 6 + place * 18:g}" cy="16" r="5" fill="{colour}"/>')
    print(f'<svg x="{PAD:g}" y="{TOP:g}" width="{COLUMNS * CELL:g}" height="{ROWS * LINE:g}">')
    print('<g class="up">')
    for place, line in enumerate(lines):
        print(f'<text y="{place * LINE + 13:g}" xml:space="preserve">{drawn(line)}</text>')
    print("</g>")
    print(f'<rect class="down" width="100%" height="{ROWS * LINE:g}" fill="{BACK}"/>')
    print("</svg>\n</svg>")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    said = record(sys.argv[1]).rstrip("\n").split("\n")
    picture([f"\x1b[1m$\x1b[0m unfazed run --quiet examples/quickstart/agent.yaml", *said])


if __name__ == "__main__":
    main()
