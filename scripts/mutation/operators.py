"""Finds every place of a C file where one operator-level mistake can be made, and makes it.

A mutant replaces the text from `begin` to `end` and keeps the number of lines. It may have a `probe`, the text that
is compiled instead: the same code with a check by the compiler, for instance that two arguments have the same type.
"""
import re

KINDS = {
    "comparison": "another comparison: == for !=, < for >",
    "boundary": "a boundary off by one: < for <=, > for >=",
    "constant": "another constant",
    "statement": "a statement dropped",
    "release": "a wake-up or a release dropped",
    "arguments": "two arguments of the same type swapped",
    "status": "a status ignored",
    "condition": "a condition negated",
    "logic": "&& for ||",
    "arithmetic": "+ for -, << for >>",
}

TOKEN = re.compile(r"""
    (?P<comment>/\*.*?\*/|//[^\n]*)
  | (?P<line>^[ \t]*\#(?:[^\n\\]|\\.|\\\n)*)
  | (?P<string>"(?:[^"\\\n]|\\.)*")
  | (?P<char>'(?:[^'\\\n]|\\.)*')
  | (?P<number>\.?[0-9](?:[eEpP][+-]|[0-9a-zA-Z_.])*)
  | (?P<name>[A-Za-z_][A-Za-z_0-9]*)
  | (?P<sign>\.\.\.|<<=|>>=|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^~!<>=?:;,.(){}\[\]])
""", re.VERBOSE | re.MULTILINE | re.DOTALL)

COMPARED = {"==": "!=", "!=": "==", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
BOUNDARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
LOGIC = {"&&": "||", "||": "&&"}
ARITHMETIC = {"+": "-", "-": "+", "+=": "-=", "-=": "+=", "++": "--", "--": "++", "/": "*", "%": "/", "<<": ">>",
              ">>": "<<", "|": "&", "&": "|", "*": "/", "|=": "&=", "*=": "/=", "/=": "*="}
BINARY_ONLY = {"+", "-", "*", "/", "%", "<<", ">>", "|", "&"}
KEYWORDS = {"if", "while", "for", "switch", "return", "sizeof", "do", "else", "case", "default", "goto", "break",
            "continue", "_Alignof", "_Alignas", "__typeof__", "defined"}
TYPES = {"const", "static", "struct", "union", "enum", "unsigned", "signed", "int", "long", "short", "char", "float",
         "double", "void", "bool", "volatile", "register", "extern", "_Atomic", "_Thread_local", "typedef"}
# Invariants check the code themselves; tests need not check them.
ASSERTIONS = {"INVARIANT", "_Static_assert", "static_assert", "__attribute__"}
# Only tests call these. Functions that nothing else calls are for tests too.
CHECKS_FOR_TESTS = {"job_check", "tasks_check", "account_check"}
LOGGING = {"run_log", "muster_error_fill", "invariant_broken"}
# No caller can tell whether these were called: advice for the system, and destructors that do nothing here.
UNSEEN = {"posix_fadvise", "madvise", "platform_pages_prefer_large", "platform_thread_yield", "sched_yield",
          "platform_mutex_deinit", "platform_condition_deinit", "pthread_mutex_destroy", "pthread_cond_destroy",
          "pthread_condattr_destroy", "pthread_attr_destroy", "posix_spawnattr_destroy"}
RELEASES = re.compile(r"(^|_)(wake|signal|broadcast|notify|unpark|kick|release|released|free|unlock|leave|destroy|deinit|"
                      r"close|drop|unref|unreference|unpin|give|give_back|unregister|publish|post|poke|join|discard|"
                      r"remove|unmap|munmap|unlink|reclaim|abandon|end|return)(_|$)")
# The order of their arguments does not matter, or only changes the sign of the result.
SYMMETRIC = {"least", "most", "min", "max", "smaller", "larger", "strcmp", "memcmp", "strncmp", "fmin", "fmax",
             "__builtin_add_overflow", "__builtin_mul_overflow", "allocator_take", "allocator_give", "total_of"}
MESSAGE = re.compile(r'"[^"]*[A-Za-z%)\],;:] [^"]*"')


class Mutant:
    def __init__(self, source, kind, begin, end, text, function, probe=None, shown=None):
        self.file, self.kind, self.begin, self.end, self.text = source.file, kind, begin, end, text
        self.probe = probe if probe is not None else text
        self.function = function
        self.line = source.text.count("\n", 0, begin) + 1
        first = source.text.rfind("\n", 0, begin if shown is None else shown) + 1
        last = source.text.find("\n", max(end - 1, begin))
        last = len(source.text) if last < 0 else last
        self.before = plain(source.text[first:last])
        self.after = plain(source.text[first:begin] + text + source.text[end:last])
        self.occurrence = 0

    def key(self):
        return self.file, self.function, self.before, self.after

    def broken(self, text):
        """The whole file with the mistake in it, as it is compiled."""
        return text[:self.begin] + self.probe + text[self.end:]


def plain(text):
    """Without comments, one blank for many: what a mark is compared by."""
    return " ".join(re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.DOTALL).split())


class Token:
    __slots__ = ("kind", "text", "begin", "end")

    def __init__(self, kind, text, begin, end):
        self.kind, self.text, self.begin, self.end = kind, text, begin, end


class Source:
    """One file: its tokens, what is in which brackets, and its mutants."""

    def __init__(self, file, text):
        self.file, self.text = file, text
        self.tokens = [Token(found.lastgroup, found.group(), found.start(), found.end())
                       for found in TOKEN.finditer(text) if found.lastgroup not in ("comment", "line")]
        self.partner = {}
        opened = []
        for index, token in enumerate(self.tokens):
            if token.kind == "sign" and token.text in "([{":
                opened.append(index)
            elif token.kind == "sign" and token.text in ")]}":
                if not opened:
                    raise ValueError(f"{file}: a bracket too many")
                first = opened.pop()
                self.partner[first], self.partner[index] = index, first
        if opened:
            raise ValueError(f"{file}: a bracket is not closed")
        self.spared = self.find_spared()
        self.found = []

    def is_at(self, index, *texts):
        return 0 <= index < len(self.tokens) and self.tokens[index].text in texts

    def slice(self, first, last):
        """The text of the tokens from first to last."""
        return self.text[self.tokens[first].begin:self.tokens[last].end]

    def has_message(self, first, last):
        return any(token.kind == "string" and MESSAGE.match(token.text) for token in self.tokens[first:last + 1])

    def find_spared(self):
        """Tokens within assertions, calls that make a message, and calls that nobody sees."""
        spared = set()
        for index, token in enumerate(self.tokens):
            if token.kind != "name" or not self.is_at(index + 1, "(") or token.text in KEYWORDS:
                continue
            last = self.partner[index + 1]
            if token.text in ASSERTIONS | LOGGING | UNSEEN or self.has_direct_message(index + 1, last):
                spared.update(range(index, last + 1))
        return spared

    def has_direct_message(self, first, last):
        """Whether an argument of this very call is a message."""
        index = first + 1
        while index < last:
            token = self.tokens[index]
            if token.kind == "sign" and token.text in "([{":
                index = self.partner[index]
            elif token.kind == "string" and MESSAGE.match(token.text):
                return True
            index += 1
        return False

    def functions(self):
        """Each function's name, and where its body begins."""
        index = 0
        while index < len(self.tokens):
            if self.is_at(index, "{") and self.is_at(index - 1, ")"):
                yield self.tokens[self.partner[index - 1] - 1].text, index
            index = self.partner[index] + 1 if self.is_at(index, "{") else index + 1

    def is_static(self, body):
        index = body - 1
        while index >= 0 and not self.is_at(index, ";", "}"):
            index -= 1
        return self.is_at(index + 1, "static")

    def for_tests_only(self):
        """The checks, and what only they call."""
        bodies = dict(self.functions())
        users = {name: set() for name in bodies}
        for user, first in bodies.items():
            for token in self.tokens[first:self.partner[first]]:
                if token.text in users and token.text != user:
                    users[token.text].add(user)
        found = CHECKS_FOR_TESTS & bodies.keys()
        own = {name for name, first in bodies.items() if self.is_static(first)}
        while more := {name for name in own if users[name] and users[name] <= found} - found:
            found |= more
        return found

    def add(self, kind, first, last, text, probe=None, shown=None):
        """`shown` is the token from which on the place is shown, if that is not the first."""
        begin, end = self.tokens[first].begin, self.tokens[last].end
        lines = self.text.count("\n", begin, end)
        text += "\n" * (lines - text.count("\n"))
        if probe is not None:
            probe += "\n" * (lines - probe.count("\n"))
        self.found.append(Mutant(self, kind, begin, end, text, self.function, probe,
                                 None if shown is None else self.tokens[shown].begin))

    def mutants(self):
        """All of them, in the order of the file."""
        self.found, self.function = [], ""
        spared = self.for_tests_only()
        index = 0
        while index < len(self.tokens):
            if not self.is_at(index, "{"):
                self.outside(index)
                index += 1
            elif self.is_at(index - 1, ")"):
                head = self.partner[index - 1] - 1
                self.function = self.tokens[head].text
                self.gives_status = self.is_at(head - 1, "muster_status")
                if self.function not in spared:
                    self.function_body(index, self.partner[index])
                self.function = ""
                index = self.partner[index] + 1
            else:
                index += 1
        seen = {}
        for mutant in self.found:
            key = (mutant.function, mutant.kind, mutant.before, mutant.after)
            mutant.occurrence = seen[key] = seen.get(key, -1) + 1
        return self.found

    def outside(self, index):
        """Constants of tables and enumerations."""
        if self.tokens[index].kind == "number" and self.is_at(index - 1, "=", ",", "-") and index not in self.spared:
            self.constant(index)

    def function_body(self, first, last):
        self.declared = set()  # where declarations begin and end
        index = first + 1
        while index < last:
            index = self.statement(index, None)
        for index in range(first + 1, last):
            if index not in self.spared:
                self.token(index)

    # Statements.

    def end_of(self, index):
        """Where the ; is that ends what begins here."""
        while not self.is_at(index, ";"):
            index = self.partner[index] + 1 if self.is_at(index, "(", "[", "{") else index + 1
        return index

    def statement(self, index, under):
        """Looks at the statement and returns what follows it; `under` is the 'if' whose only statement it is."""
        token = self.tokens[index]
        if token.text == "{":
            last = self.partner[index]
            index += 1
            while index < last:
                following = self.statement(index, under if self.end_or_none(index, last) else None)
                index = following
            return last + 1
        if token.text in ("if", "while", "switch", "for") and self.is_at(index + 1, "("):
            last = self.partner[index + 1]
            if token.text in ("if", "while") and index not in self.spared:
                self.add("condition", index + 2, last - 1, f"!({self.slice(index + 2, last - 1)})")
            following = self.statement(last + 1, index if token.text == "if" and not self.has_else(last + 1) else None)
            if token.text == "if" and self.is_at(following, "else"):
                return self.statement(following + 1, None)
            return following
        if token.text == "do":
            following = self.statement(index + 1, None)  # at its while
            return self.end_of(following) + 1
        if token.text in ("case", "default"):
            while not self.is_at(index, ":"):
                index += 1
            return index + 1 if self.is_at(index + 1, "}") else self.statement(index + 1, None)
        if token.kind == "name" and self.is_at(index + 1, ":"):
            return self.statement(index + 2, None)
        last = self.end_of(index)
        self.simple(index, last, under)
        return last + 1

    def end_or_none(self, index, last):
        """Whether the statement that begins here is the last before `last`."""
        return not self.is_at(index, "if", "while", "for", "switch", "do", "{") and self.end_of(index) + 1 == last

    def has_else(self, index):
        """Whether an else follows what begins here, which is not looked at otherwise."""
        found, self.found = self.found, []
        declared = set(self.declared)
        following = self.statement(index, None)
        self.found, self.declared = found, declared
        return self.is_at(following, "else")

    def simple(self, first, last, under):
        """An expression, a declaration, or a jump, with its ;."""
        if first == last:
            return
        word = self.tokens[first].text
        if word in ("return", "goto", "break", "continue"):
            self.jump(first, last, under, word)
            return
        if first in self.spared and word in ASSERTIONS:
            return
        if self.has_message(first, last):
            self.spared.update(range(first, last + 1))
        equals = next((i for i in range(first, last) if self.is_at(i, "=") and not self.within(first, i)), None)
        if self.is_declaration(first):
            self.declared.update(range(first, equals or last))
        elif word != "(" or not self.is_at(first + 1, "void"):
            self.dropped(first, last)
        if equals and equals + 2 < last and self.tokens[equals - 1].kind == "name":
            self.assigned_status(first, equals, last)

    def within(self, first, index):
        """Whether the token is in brackets that open after `first`."""
        i = first
        while i < index:
            if self.is_at(i, "(", "[", "{"):
                if self.partner[i] > index:
                    return True
                i = self.partner[i]
            i += 1
        return False

    def is_declaration(self, first):
        word = self.tokens[first]
        if word.text in TYPES:
            return True
        after = self.tokens[first + 1]
        return word.kind == "name" and (after.kind == "name" or (after.text == "*" and self.is_at(first + 3, "=", ";", ",", "[")))

    def dropped(self, first, last):
        if self.tokens[first].text in LOGGING | UNSEEN or self.has_message(first, last):
            return
        is_call = self.tokens[first].kind == "name" and self.is_at(first + 1, "(") and self.partner[first + 1] + 1 == last
        kind = "release" if is_call and RELEASES.search(self.tokens[first].text) else "statement"
        self.add(kind, first, last, ";")

    def jump(self, first, last, under, word):
        if word == "return" and self.gives_status and last > first + 3 and self.is_at(last - 1, ")"):
            if self.tokens[first + 1].kind == "name" and self.is_at(first + 2, "("):
                call = self.slice(first + 1, last - 1)
                self.add("status", first + 1, last - 1, f"({call}, MUSTER_OK)")
        if word in ("break", "continue"):
            if under is not None:
                self.add("statement", first, last, ";", shown=under)
        elif under is not None and last + 1 < len(self.tokens):
            condition = self.slice(under + 2, self.partner[under + 1] - 1)
            kind = "status" if "status" in condition or "MUSTER_OK" in condition else "statement"
            self.add(kind, first, last, ";", shown=under)

    def assigned_status(self, first, equals, last):
        """status = f(...): f is called, and what it gives is not looked at."""
        name = self.tokens[equals - 1].text
        is_status = self.is_at(first, "muster_status") or re.search(r"(^|_)status$", name)
        if is_status and self.tokens[equals + 1].kind == "name" and self.is_at(equals + 2, "(") and self.is_at(last - 1, ")"):
            self.add("status", equals + 1, last - 1, f"({self.slice(equals + 1, last - 1)}, MUSTER_OK)")

    # Tokens.

    def token(self, index):
        token = self.tokens[index]
        if token.kind == "number" or token.text in ("true", "false"):
            in_bound = index in self.declared and self.is_at(index - 1, "[")
            is_zeroing = self.is_at(index - 1, "{") and self.is_at(index + 1, "}")
            if not in_bound and not is_zeroing:
                self.constant(index)
        if token.kind == "name" and self.is_at(index + 1, "("):
            self.arguments(index)
        if token.kind != "sign":
            return
        if token.text in COMPARED:
            self.add("comparison", index, index, COMPARED[token.text])
        if token.text in BOUNDARY:
            self.add("boundary", index, index, BOUNDARY[token.text])
        if token.text in LOGIC:
            self.add("logic", index, index, LOGIC[token.text])
        if token.text in ARITHMETIC and index not in self.declared:
            before = self.tokens[index - 1]
            is_value = before.kind in ("name", "number", "char") and before.text not in KEYWORDS or before.text in (")", "]")
            if token.text not in BINARY_ONLY or is_value:
                self.add("arithmetic", index, index, ARITHMETIC[token.text])

    def constant(self, index):
        text = self.tokens[index].text
        if text in ("true", "false"):
            self.add("constant", index, index, "false" if text == "true" else "true")
            return
        whole = re.fullmatch(r"(0[xX][0-9a-fA-F]+|[0-9]+)([uUlL]*)", text)
        if whole:
            value, suffix = int(whole[1], 0 if whole[1].startswith(("0x", "0X")) else 10), whole[2]
            for other in {value + 1, max(value - 1, 0)} - {value}:
                self.add("constant", index, index, f"{other:#x}{suffix}" if whole[1].startswith(("0x", "0X"))
                         else f"{other}{suffix}")
            return
        try:
            value = float(text)
        except ValueError:
            return
        self.add("constant", index, index, repr(value * 2 if value else 1.0))

    def arguments(self, index):
        """Each two neighbours among the arguments of a call."""
        callee = self.tokens[index].text
        if callee in KEYWORDS or callee in SYMMETRIC or callee in ASSERTIONS or index in self.declared:
            return
        last = self.partner[index + 1]
        given, begin, i = [], index + 2, index + 2
        while i < last:
            if self.is_at(i, "(", "[", "{"):
                i = self.partner[i]
            elif self.is_at(i, ","):
                given.append((begin, i - 1))
                begin = i + 1
            i += 1
        if begin < last:
            given.append((begin, last - 1))
        for (a, b), (c, d) in zip(given, given[1:]):
            if a > b or c > d or self.slice(a, b) == self.slice(c, d):
                continue
            one, other, between = self.slice(a, b), self.slice(c, d), self.text[self.tokens[b].end:self.tokens[c].begin]
            check = (f"(void)sizeof(char[__builtin_types_compatible_p(__typeof__({one.replace(chr(10), ' ')}), "
                     f"__typeof__({other.replace(chr(10), ' ')})) ? 1 : -1])")
            self.add("arguments", a, d, f"{other}{between}{one}", f"({check}, {other}){between}{one}")
