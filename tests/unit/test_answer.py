"""What one thread owes another."""

import threading

import pytest

from inference.answer import Answer


def test_a_result_is_there_for_those_who_came_before_it_and_after() -> None:
    answer, heard = Answer[int](), list[int]()
    answer.then(lambda came: heard.append(came.result()))
    assert not answer.is_there
    answer.give(7)
    answer.then(lambda came: heard.append(came.result() + 1))
    assert (answer.result(), answer.error(), heard) == (7, None, [7, 8])


def test_an_error_is_raised_where_the_result_is_asked_for() -> None:
    answer = Answer[int]()
    answer.fail(ValueError("no"))
    assert isinstance(answer.error(), ValueError)
    with pytest.raises(ValueError, match="no"):
        answer.result()


def test_who_waits_is_woken_by_the_thread_that_answers_or_gives_up() -> None:
    answer = Answer[int]()
    with pytest.raises(TimeoutError):
        answer.result(0)
    thread = threading.Thread(target=lambda: answer.give(7))
    thread.start()
    assert answer.result(10) == 7
    thread.join()


def test_a_call_that_breaks_harms_neither_the_others_nor_the_thread_that_answers() -> None:
    answer, heard = Answer[int](), list[int]()
    answer.then(lambda came: heard.append(came.result()))
    answer.then(lambda _: heard.remove(0))
    answer.give(7)
    assert heard == [7]


def test_each_call_happens_once_however_two_threads_meet() -> None:
    for _ in range(500):
        answer, heard = Answer[int](), list[int]()
        thread = threading.Thread(target=answer.give, args=(7,))
        thread.start()
        answer.then(lambda came, heard=heard: heard.append(came.result()))  # type: ignore[misc]
        thread.join()
        assert heard == [7]
