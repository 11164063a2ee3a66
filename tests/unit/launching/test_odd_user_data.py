"""User data that no parser expects is a problem of its own class: nothing that a user writes ends in another error."""

import base64
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from joiner.launching.image_families.image_family_registry import IMAGE_FAMILIES
from joiner.launching.image_families.node_settings import UserDataRefused
from joiner.launching.user_data import LIMIT_BYTES, build_user_data
from joiner.pools import NodeClass
from joiner.pools.node_class import ImageFamily
from tests.unit.launching.launch_scenario import CLUSTER, POOL, TEMPLATE, resolved, wanted

CONFIG: Final = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: "
MULTIPART: Final = 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="B"\n\n--B\n'
MERGES: Final = "\n".join(
    f"  x{level}: &x{level} {{<<: [{', '.join([f'*x{level - 1}'] * 9)}]}}" for level in range(1, 13)
)
"""Three entries, that are merged nine times at each of twelve levels: 847 billion of them."""

YAML: Final = {
    '!!bool "abc"': "in line 3, 'abc' is no value of the type bool: correct it, or put it in quotes, without a tag",
    '!!timestamp "abc"': "in line 3, 'abc' is no value of the type timestamp: correct it",
    "\n  cluster: 0x_": "in line 4, '0x_' is no value of the type int: correct it",
    '!!int "abc"': "in line 3, 'abc' is no value of the type int: correct it",
    '!!float "abc"': "in line 3, 'abc' is no value of the type float: correct it",
    "9" * 5000: f"in line 3, '{'9' * 40}...' is no value of the type int: correct it",
    f"0x{'f' * 5000}": f"in line 3, '0x{'f' * 38}...' is no value of the type int: correct it",
    "{0x1_0000_0000_0000_0000: 1}": "in line 3, '0x1_0000_0000_0000_0000' is no value of the type int: correct it",
    "2026-02-30": "in line 3, there is no date '2026-02-30': correct it, or put it in quotes",
    f"\n  x0: &x0 {{a: 1, b: 2, c: 3}}\n{MERGES}": "in line 7, this mapping merges (<<) more than 1,000 entries: write",
    f"\n{'- ' * 3000}": "is nested too deeply",
    f"\n{'? ' * 3000}": "is nested too deeply",
}
TOML: Final = {
    f"[settings]\na = {'9' * 5000}": "in line 2, an integer has more than 64 bits: correct it, or put it in quotes",
    f"[settings]\na = 0x{'f' * 5000}": "an integer has more than 64 bits",
    "[settings]\na = [{b = 9223372036854775808}]": "an integer has more than 64 bits",
    f"a = {'[' * 3000}": "it is nested too deeply: look for brackets or dots by mistake",
    f"[settings]\na = {'[' * 200}{']' * 200}": "it is nested too deeply",
    f"[settings{'.a' * 4000}]": "it is nested too deeply",
    f"[settings]\n{'a.' * 90}a.a = {'[' * 20}{']' * 20}": "it is nested too deeply",
}


@pytest.mark.parametrize(("spec", "message"), YAML.items(), ids=[text[:20] for text in YAML])
def test_a_value_that_yaml_cannot_convert_is_described_with_its_line(spec: str, message: str) -> None:
    assert _refusal("AL2023", f"{CONFIG}{spec}").startswith(
        f"spec.userData: its NodeConfig {'' if message.startswith('is ') else 'is not valid YAML: '}{message}"
    )


@pytest.mark.parametrize(("text", "message"), TOML.items(), ids=[text[:20] for text in TOML])
def test_a_value_that_toml_cannot_have_is_described(text: str, message: str) -> None:
    refusal = _refusal("Bottlerocket", text)

    assert refusal.startswith(f"spec.userData: Bottlerocket reads TOML, and this is none: {message}")


def test_mime_that_python_cannot_read_is_malformed() -> None:
    """Python's parser raises a ValueError for a character set with a null character."""
    refusal = _refusal("AL2023", MULTIPART.replace('="B"', "*=a\0b'en'%ff"))

    assert refusal == "spec.userData: it is malformed MIME: its headers or its parts cannot be read"


def test_an_alias_of_aliases_is_not_written_out() -> None:
    levels = "\n".join(f"x{level}: &x{level} [{', '.join([f'*x{level - 1}'] * 9)}]" for level in range(1, 13))

    refusal = _refusal(
        "AL2023", f"# {{apiVersion: node.eks.aws/\nx0: &x0 [a]\n{levels}\nkind: NodeConfig\napiVersion: *x12"
    )

    assert "a document for nodeadm has NodeConfig: write apiVersion" in refusal


@pytest.mark.parametrize("family", IMAGE_FAMILIES)
def test_half_a_character_is_refused(family: ImageFamily) -> None:
    assert "U+D800 is half a character" in _refusal(family, "#!/bin/sh\necho \ud800")


@pytest.mark.parametrize("family", IMAGE_FAMILIES)
def test_user_data_that_is_too_large_is_not_read(family: ImageFamily) -> None:
    """Reading this as YAML or TOML would take minutes."""
    nested = f"{CONFIG}\n  a: [{'1, ' * 400_000}]"

    assert f"and EC2 takes {LIMIT_BYTES}: shorten it" in _refusal(family, nested)


def _refusal(family: ImageFamily, user_data: str) -> str:
    """Return the only error of this user data."""
    (error,) = _refusals(replace(TEMPLATE, ami_family=family, user_data=user_data))
    return error


def _refusals(node_class: NodeClass) -> list[str]:
    found = [one for one in resolved(node_class).problems if one.severity == "error"]
    return [one.message for one in found if one.message.startswith("spec.userData: ")]


TOKENS: Final = st.sampled_from(
    [
        *(
            "!!bool ",
            "!!int ",
            "!!float ",
            "!!timestamp ",
            "!!binary ",
            "!!set ",
            "!!omap ",
            "!!null ",
            "!!merge ",
            "!x ",
        ),
        *(
            "&a ",
            "*a",
            "<<: ",
            "? ",
            ": ",
            "- ",
            ", ",
            "=",
            "#",
            "'",
            '"',
            '"""',
            "\\",
            "\\ud800",
            "\\x00",
            "|",
            ">",
            "%",
        ),
        *(
            "[",
            "]",
            "{",
            "}",
            "[[",
            "]]",
            "(",
            ")",
            ".",
            "a",
            "spec",
            "settings",
            "kubernetes",
            "node-labels",
            "kubelet",
        ),
        *("0x", "0x_", "1_", "08", "1e999", ".inf", "nan", "2026-02-30", "1979-05-27T07:32:00+23:59", "9" * 4400, "é"),
        *(
            "\n",
            "\n  ",
            "\n\n",
            "\t",
            "\r\n",
            "\0",
            "\ufeff",
            "\x85",
            "\u2028",
            "\ud800",
            "---",
            "...",
            "true",
            "~",
            "null",
        ),
        *(
            "Content-Type: ",
            "multipart/mixed; ",
            "boundary",
            "*",
            "*0*",
            "'en'",
            "%00",
            "%ff",
            "--B",
            "--B--",
            "message/rfc822",
        ),
        *("application/node.eks.aws", "Content-Transfer-Encoding: ", "base64", "quoted-printable", "=ff", "charset=x"),
    ]
)
BEGINNINGS: Final = st.sampled_from(
    [
        "",
        CONFIG,
        "[settings]\na = ",
        "[settings.kubernetes",
        "MIME-Version: 1.0\n",
        f"{MULTIPART}Content-Type: ",
        f"{MULTIPART}Content-Type: application/node.eks.aws\n\n{CONFIG}",
        f"{MULTIPART}Content-Type: text/x-shellscript\nContent-Transfer-Encoding: base64\n\n",
        f"{MULTIPART}Content-Type: application/node.eks.aws\nContent-Transfer-Encoding: base64\n\n"
        f"{base64.b64encode(f'{CONFIG}!!bool x'.encode()).decode()}",
        "<powershell>",
    ]
)


@given(
    family=st.sampled_from([*IMAGE_FAMILIES]),
    beginning=BEGINNINGS,
    tokens=st.lists(TOKENS, max_size=12),
    close=st.booleans(),
)
def test_every_text_is_read_or_refused(family: ImageFamily, beginning: str, tokens: list[str], close: bool) -> None:
    """What is not refused can be written for a node, unless it has no room for Joiner's part."""
    text = "".join([beginning, *tokens, *(["\n--B--"] if close else [])])
    node_class = replace(TEMPLATE, ami_family=family, user_data=text)

    if not _refusals(node_class):
        try:
            assert len(build_user_data(CLUSTER, wanted("x").claim, POOL, node_class, family).encode()) <= LIMIT_BYTES
        except UserDataRefused as refused:
            assert refused.reason == "UserDataSizeLimitExceeded"
