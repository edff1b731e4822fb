"""A client of NATS without Muster: what anybody can send who reaches the servers. Signs with a key as Muster's clients do."""
import base64
import hashlib
import json
import os
import socket
import ssl
import time

# Ed25519 as RFC 8032 has it: slow and plain, for tests alone.
PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, PRIME - 2, PRIME) % PRIME


def _add(one, other):
    a, b = (one[1] - one[0]) * (other[1] - other[0]) % PRIME, (one[1] + one[0]) * (other[1] + other[0]) % PRIME
    c, d = 2 * one[3] * other[3] * D % PRIME, 2 * one[2] * other[2] % PRIME
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % PRIME, g * h % PRIME, f * g % PRIME, e * h % PRIME


def _times(number, point):
    sum_ = (0, 1, 1, 0)
    while number:
        if number & 1:
            sum_ = _add(sum_, point)
        point = _add(point, point)
        number >>= 1
    return sum_


def _base():
    y = 4 * pow(5, PRIME - 2, PRIME) % PRIME
    square = (y * y - 1) * pow(D * y * y + 1, PRIME - 2, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    if (x * x - square) % PRIME:
        x = x * pow(2, (PRIME - 1) // 4, PRIME) % PRIME
    x = PRIME - x if x & 1 else x
    return x, y, 1, x * y % PRIME


BASE = _base()


def _pack(point):
    inverse = pow(point[2], PRIME - 2, PRIME)
    x, y = point[0] * inverse % PRIME, point[1] * inverse % PRIME
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _expand(secret):
    digest = hashlib.sha512(secret).digest()
    scalar = int.from_bytes(digest[:32], "little") & ((1 << 254) - 8) | 1 << 254
    return scalar, digest[32:]


def sign(secret, message):
    scalar, prefix = _expand(secret)
    public = _pack(_times(scalar, BASE))
    r = int.from_bytes(hashlib.sha512(prefix + message).digest(), "little") % ORDER
    point = _pack(_times(r, BASE))
    h = int.from_bytes(hashlib.sha512(point + public + message).digest(), "little") % ORDER
    return point + ((r + h * scalar) % ORDER).to_bytes(32, "little")


def _checksum(raw):
    total = 0
    for byte in raw:
        total ^= byte << 8
        for _ in range(8):
            total = (total << 1 ^ 0x1021 if total & 0x8000 else total << 1) & 0xFFFF
    return total.to_bytes(2, "little")


class Key:
    """From a key file, or a new one."""

    def __init__(self, path=None):
        if path:
            with open(path, encoding="ascii") as file:
                text = file.read().strip()
            self.secret = base64.b32decode(text + "=" * (-len(text) % 8))[2:34]
        else:
            self.secret = os.urandom(32)
        raw = bytes([20 << 3]) + _pack(_times(_expand(self.secret)[0], BASE))
        self.public = base64.b32encode(raw + _checksum(raw)).decode().rstrip("=")

    def sign(self, message):
        return sign(self.secret, message)


class Denied(Exception):
    """What the server said."""


class Raw:
    """One connection. What the server refuses is told a little later; `pub` and `sub` wait for it."""

    def __init__(self, port, key=None, ca=None):
        self.buffer, self.messages, self.numbers, self.is_closed = b"", [], 0, False
        self.link = socket.create_connection(("127.0.0.1", port), 20)
        info = json.loads(self.line()[5:])
        if info.get("tls_required") or ca:
            context = ssl.create_default_context(cafile=ca)
            self.link = context.wrap_socket(self.link, server_hostname="localhost")
        hello = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True, "lang": "test", "version": "1",
                 "protocol": 1}
        self.inbox = "_INBOX.test"
        if key:
            nonce = info.get("nonce", "").encode()
            hello["nkey"] = key.public
            hello["sig"] = base64.urlsafe_b64encode(key.sign(nonce)).decode().rstrip("=")
            self.inbox = "_INBOX." + key.public
        self.link.sendall(b"CONNECT " + json.dumps(hello).encode() + b"\r\n")
        self.settle()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.link.close()

    def _more(self):
        try:
            got = self.link.recv(65536)
        except ConnectionError:
            got = b""
        if not got:
            self.is_closed = True
            raise Denied("the server has closed the connection")
        self.buffer += got

    def _take(self, count):
        while len(self.buffer) < count:
            self._more()
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def line(self):
        while b"\r\n" not in self.buffer:
            self._more()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def _read(self):
        """One thing that the server says; True: the answer to a ping."""
        line = self.line()
        word, *rest = line.split(b" ")
        if word == b"-ERR":
            raise Denied(line.decode())
        if word == b"PING":
            self.link.sendall(b"PONG\r\n")
        if word in (b"MSG", b"HMSG"):
            size = int(rest[-1])
            head = int(rest[-2]) if word == b"HMSG" else 0
            content = self._take(size + 2)[:-2]
            self.messages.append((rest[0].decode(), content[:head], content[head:]))
        return word == b"PONG"

    def settle(self):
        """All that was sent before is done, or refused, which is raised."""
        self.link.sendall(b"PING\r\n")
        said, is_over = None, False
        while not is_over:
            try:
                is_over = self._read()
            except Denied as denied:
                said, is_over = said or denied, self.is_closed
        if said:
            raise said

    def pub(self, subject, content=b"", reply=""):
        self.link.sendall(f"PUB {subject} {reply + ' ' if reply else ''}{len(content)}\r\n".encode() + content + b"\r\n")
        self.settle()

    def sub(self, subject):
        self.numbers += 1
        self.link.sendall(f"SUB {subject} {self.numbers}\r\n".encode())
        self.settle()

    def ask(self, subject, content=b"", seconds=20):
        """The answer's headers and bytes."""
        reply = f"{self.inbox}.{os.urandom(6).hex()}"
        self.sub(reply)
        self.pub(subject, content, reply)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for message in self.messages:
                if message[0] == reply:
                    self.messages.remove(message)
                    return message[1:]
            self._read()
        raise TimeoutError(subject)
