"""The methods that are generated from the command table, without a server."""

import inspect

import pytest

from petrel._commands import Commands


class Recorder(Commands):
    """Returns calls as they would be sent."""

    def _run(self, command, *arguments):
        assert all(isinstance(one, (str, bytes, int, float)) for one in arguments), arguments
        return (command.name, *arguments)


METHODS = [name for name, member in vars(Commands).items() if inspect.isfunction(member)]
MAPPINGS = {"mapping"}


def arguments_of(method):
    """Something for each parameter that must be given, and for each option."""
    required, rest, options = [], (), {}
    for parameter in inspect.signature(method).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = (["x", "y"], "z")
        elif parameter.default is parameter.empty:
            required.append({"x": "y"} if parameter.name in MAPPINGS else "x")
        else:
            options[parameter.name] = True if parameter.default is False else "o"
    return required, rest, options


@pytest.mark.parametrize("name", METHODS)
def test_a_method_sends_its_command_with_what_it_is_given(name):
    method = getattr(Recorder(), name)
    required, rest, options = arguments_of(method)
    command, *sent = method(*required, *rest)
    expected = "DEL" if name == "delete" else name.upper()
    assert command.replace(" ", "_").replace("-", "_").replace(".", "_") == expected
    assert sent.count("x") >= len(required) and (not rest or "z" in sent)
    for option, value in options.items():
        with_option = method(*required, *rest, **{option: value})[1:]
        assert len(with_option) > len(sent), option
        if value == "o":
            assert "o" in with_option, option


def test_options_stand_where_the_syntax_has_them():
    client = Recorder()
    assert client.lpos("k", "e", rank=2, count=0, maxlen=5) == (
        "LPOS", "k", "e", "RANK", 2, "COUNT", 0, "MAXLEN", 5,
    )  # fmt: skip
    assert client.hexpire("h", 10, "f", "g", nx=True) == (
        "HEXPIRE", "h", 10, "NX", "FIELDS", 2, "f", "g",
    )  # fmt: skip
    assert client.msetex({"a": 1, "b": 2}, ex=10) == ("MSETEX", 2, "a", 1, "b", 2, "EX", 10)
    assert client.mset({"a": 1, "b": 2}) == ("MSET", "a", 1, "b", 2)
    assert client.mset([("a", 1)]) == ("MSET", "a", 1)
    assert client.geosearch("g", "m", radius=5, unit="km", count=3, any=True) == (
        "GEOSEARCH", "g", "FROMMEMBER", "m", "BYRADIUS", 5, "km", "COUNT", 3, "ANY",
    )  # fmt: skip
    assert client.geosearch("g", bypolygon=[(1, 2), (3, 4), (5, 6)]) == (
        "GEOSEARCH", "g", "BYPOLYGON", 3, 1, 2, 3, 4, 5, 6,
    )  # fmt: skip
    assert client.sort_ro("k", start=0, num=5, get=["a*", "b*"]) == (
        "SORT_RO", "k", "LIMIT", 0, 5, "GET", "a*", "GET", "b*",
    )  # fmt: skip
    assert client.auth("secret", username="me") == ("AUTH", "me", "secret")
