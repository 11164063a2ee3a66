"""A mistake in TOML is described by its line and the remedy, without the words of a parser."""

import tomllib

import pytest

from joiner.launching.image_families.toml_mistakes import explain_toml_error


@pytest.mark.parametrize(
    ("text", "explained"),
    [
        ("[[a]", "in line 1, the [[ of a table is not closed"),
        ("a = 1\n#!/bin/sh\nreboot\n", "in line 3, there is no = after the key"),
        ("a = [1 2]", "in line 1, the [ of a list is not closed"),
        ("a = [1,\n", "in line 1, a value is missing: write it, and close its brackets"),
        ("a = {b = 1", "in line 1, the { is not closed"),
        ("a = 1 2", "in line 1, something follows its end"),
        ("a. = 1", "in line 1, a key is missing"),
        ("= 3", "in line 1, it is neither a key nor a table"),
        ("a = 'x", "in line 1, the quotation mark is not closed"),
        ('a = "x', "in line 1, the quotation mark is not closed"),
        ('a = "x\ny"', "in line 1, the quotation mark is not closed: close it in this line"),
        ("a = 'x\x01'", "in line 1, it has a control character: remove it"),
        ('a = "\\q"', "in line 1, a \\ is followed by no known letter"),
        ('a = "\\u12"', "in line 1, a \\ is followed by no known character"),
        ("a = 1\na = 2\n", "in line 2, it is set already"),
        ("[a]\n[a]", "in line 2, this table is there already"),
        ("a = {b = 1, b = 2}", "in line 1, this key is there already"),
        ("a = [1]\n[[a]]", "in line 2, it adds to a value in brackets or braces"),
        ("a = [1]\na.b = 1", "in line 2, it adds to a value in brackets or braces"),
        ("[a.b]\n[a]\nb.c = 1", "in line 3, this name has a value already: keep one of them"),
        ("a = \nb = 1", "in line 1, a value is missing: write it"),
        ("a = # later\nb = 1", "in line 1, a value is missing: write it"),
        ("a = [1,,2]", "in line 1, a value is missing: write it"),
        ("a = 2026-02-30", "in line 1, there is no such date or time"),
        ("a = True", "in line 1, the value is none of TOML"),
    ],
)
def test_a_mistake_has_its_line_and_a_remedy(text: str, explained: str) -> None:
    with pytest.raises(tomllib.TOMLDecodeError) as caught:
        tomllib.loads(text)

    assert explain_toml_error(caught.value, text).startswith(explained)
    assert "column" not in explain_toml_error(caught.value, text)
