"""What parts write comes out line by line, behind their names."""

import io

from project.stack import output
from project.stack.output import Output


def make_output() -> tuple[Output, io.StringIO]:
    stream = io.StringIO()
    return Output(["web", "worker-1"], stream), stream


def test_every_line_has_its_parts_name() -> None:
    out, stream = make_output()
    out.feed("web", "stdout", b"one\ntwo\n")
    assert stream.getvalue() == "web      | one\nweb      | two\n"


def test_a_line_in_pieces_comes_out_whole() -> None:
    out, stream = make_output()
    out.feed("web", "stdout", b"on")
    out.feed("worker-1", "stdout", b"other\n")
    out.feed("web", "stdout", b"e\n")
    assert stream.getvalue().splitlines() == ["worker-1 | other", "web      | one"]


def test_the_two_channels_of_a_part_do_not_mix() -> None:
    out, stream = make_output()
    out.feed("web", "stdout", b"out ")
    out.feed("web", "stderr", b"error\n")
    out.feed("web", "stdout", b"put\n")
    assert stream.getvalue().splitlines() == ["web      | error", "web      | out put"]


def test_bytes_that_are_no_text_do_no_harm() -> None:
    out, stream = make_output()
    out.feed("web", "stdout", b"\xff\n")
    assert stream.getvalue() == "web      | \ufffd\n"


def test_the_last_lines_are_kept_an_unfinished_one_too() -> None:
    out, _ = make_output()
    out.feed("web", "stderr", b"".join(b"%d\n" % i for i in range(100)) + b"dying")
    kept = out.last_lines("web")
    assert (len(kept), kept[-2:]) == (output.KEPT_LINES, ["99", "dying"])
