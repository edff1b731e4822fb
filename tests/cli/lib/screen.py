"""Runs a command on a terminal of its own (a pty) and keeps what a person would see on it.

    seen = on_terminal(["muster", ...], columns=80, rows=24)
    seen.code, seen.final      exit status, the screen at the end
    seen.screens               the screen after each time the command wrote: lists of lines
    seen.output                every byte that it wrote

The terminal knows what the display uses: CR, LF, BS, cursor up, erase to the end of the line and of the screen, colours. Anything
else is remembered in `unknown`. Lines that are too long wrap, as on a real one.
"""
import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections import namedtuple

SEQUENCE = re.compile(r"\x1b\[([0-9;]*)([A-Za-z])")


class Screen:
    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.cells = [[(" ", "")] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.style = ""
        self.scrolled = 0  # lines that left at the top
        self.unknown = []
        self.rest = ""

    def feed(self, text):
        text = self.rest + text
        self.rest = ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                match = SEQUENCE.match(text, at)
                if not match:
                    if len(text) - at < 16:
                        self.rest = text[at:]
                        return
                    self.unknown.append(text[at:at + 8])
                    at += 1
                    continue
                self.sequence(match[1], match[2])
                at = match.end()
                continue
            self.character(text[at])
            at += 1

    def sequence(self, numbers, letter):
        if letter == "A":
            self.row = max(0, self.row - int(numbers or 1))
        elif letter == "K" and not numbers:
            self.erase(self.row, self.column)
        elif letter == "J" and not numbers:
            self.erase(self.row, self.column)
            for row in range(self.row + 1, self.rows):
                self.erase(row, 0)
        elif letter == "m":
            self.style = "" if numbers in ("", "0") else numbers
        else:
            self.unknown.append(numbers + letter)

    def erase(self, row, column):
        self.cells[row][column:] = [(" ", "")] * (self.columns - column)

    def line_feed(self):
        self.row += 1
        if self.row == self.rows:
            self.row -= 1
            self.scrolled += 1
            self.cells = self.cells[1:] + [[(" ", "")] * self.columns]

    def character(self, character):
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.line_feed()
        elif character == "\b":
            self.column = max(0, self.column - 1)
        else:
            if self.column == self.columns:
                self.column = 0
                self.line_feed()
            self.cells[self.row][self.column] = (character, self.style)
            self.column += 1

    def lines(self):
        lines = ["".join(cell[0] for cell in row).rstrip() for row in self.cells]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def copy_of_cells(self):
        return [list(row) for row in self.cells]


Seen = namedtuple("Seen", "code final screens output times screen cells pid_signal stdout")


def set_size(descriptor, columns, rows):
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def become_session(descriptor):
    os.setsid()
    fcntl.ioctl(descriptor, termios.TIOCSCTTY, 0)


def on_terminal(command, columns=80, rows=24, environment=None, before="", at=None, limit_s=60, stdin=None, read_delay_s=0,
                typed=b""):
    """`typed` comes from the keyboard before the command starts. `at(process, descriptor, screen, elapsed)` is called after each
    read, and may signal or resize. stderr is the terminal, stdout a pipe that is kept."""
    control, terminal = pty.openpty()
    set_size(control, columns, rows)
    screen = Screen(columns, rows)
    screen.feed(before)
    os.write(control, typed)
    start = time.monotonic()
    # The pipe's other end is read at the end only: what a command prints there fits.
    process = subprocess.Popen(command, stdin=stdin or subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=terminal, env=environment,
                               preexec_fn=lambda: become_session(2))
    os.close(terminal)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    output, screens, times, cells = "", [], [], []
    while time.monotonic() - start < limit_s:
        time.sleep(read_delay_s)
        ready, _, _ = select.select([control], [], [], 0.05)
        if ready:
            try:
                data = os.read(control, 65536)
            except OSError:  # all of the terminal's users are gone
                break
            text = decoder.decode(data)
            output += text
            screen.feed(text)
            screens.append(screen.lines())
            cells.append(screen.copy_of_cells())
            times.append(time.monotonic() - start)
        if at:
            at(process, control, screen, time.monotonic() - start)
    else:
        process.kill()
    code = process.wait()
    stdout = process.stdout.read()
    process.stdout.close()
    os.close(control)
    return Seen(code, screen.lines(), screens, output, times, screen, cells, -code if code < 0 else 0, stdout)
