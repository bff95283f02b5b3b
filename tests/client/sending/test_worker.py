"""The worker of the background thread: there only when needed, one cycle at a time, and never in the way of an exit."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from hubbub_client._sending import worker as module
from hubbub_client._sending.worker import Worker
from tests.client.world import forks
from tests.support.patience import PATIENCE, within

SOON = 60.0
"""Seconds within which anything that is to happen at once must have happened, however busy the machine is."""

ALONE = f"""
import sys
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("alone", {module.__file__!r})
sys.modules["alone"] = alone = module_from_spec(spec)
spec.loader.exec_module(alone)
from alone import Worker
"""


class Pass:
    """Work whose passes a test can see, hold up and count."""

    def __init__(self, wants: float = math.inf) -> None:
        self.wants = wants
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Event()
        self.go_on.set()
        self.times: list[float] = []
        self.threads: set[threading.Thread] = set()

    def __call__(self) -> float:
        self.times.append(time.monotonic())
        self.threads.add(threading.current_thread())
        self.begun.release()
        self.go_on.wait(600)
        return self.wants

    def wait_for_one(self) -> None:
        assert self.begun.acquire(timeout=SOON)

    def happens_within(self, seconds: float) -> bool:
        return self.begun.acquire(timeout=seconds)


@pytest.fixture
def work() -> Iterator[Pass]:
    work = Pass()
    yield work
    work.go_on.set()


@pytest.fixture
def worker(work: Pass) -> Iterator[Worker]:
    worker = Worker(work)
    yield worker
    work.go_on.set()
    assert worker.stop(SOON)


def named(name: str = "hubbub-sender") -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == name]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def run(program: str) -> subprocess.CompletedProcess[str]:
    """A program of its own, for what only a whole life of an interpreter shows; quick, as it loads the one module."""
    program = ALONE + textwrap.dedent(program)
    # From 3.12 on Python warns of every fork beside a thread, which is what these programs are for.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_there_is_no_thread_before_the_first_wake_and_one_daemon_after_it(work: Pass) -> None:
    worker = Worker(work, name="sender-of-one-test")
    assert not named("sender-of-one-test")
    worker.wake()
    work.wait_for_one()
    (thread,) = named("sender-of-one-test")
    assert thread.daemon
    assert worker.stop(SOON)


def test_it_works_again_after_as_long_as_the_last_pass_wanted(worker: Worker, work: Pass) -> None:
    work.wants = 0.2
    worker.wake()
    for _ in range(3):
        work.wait_for_one()
    pauses = [after - before for before, after in zip(work.times, work.times[1:], strict=False)]
    assert min(pauses) >= 0.2


def test_a_pass_that_wants_no_pause_gets_one(worker: Worker, work: Pass) -> None:
    work.wants = 0.0
    worker.wake()
    for _ in range(3):
        work.wait_for_one()
    assert work.times[2] - work.times[0] >= 0.2


@pytest.mark.parametrize("wants", [math.inf, math.nan, -5.0, 1e300])
def test_no_wish_is_too_strange(worker: Worker, work: Pass, wants: float) -> None:
    work.wants = wants
    worker.wake()
    work.wait_for_one()
    worker.wake()
    work.wait_for_one()


def test_a_wake_cuts_a_longer_wait_short_and_never_makes_one_longer(worker: Worker, work: Pass) -> None:
    began = time.monotonic()
    worker.wake(within=3600)
    worker.wake(within=0.2)
    worker.wake(within=3600)
    work.wait_for_one()
    assert work.times[0] - began >= 0.2


def test_wakes_before_a_pass_are_one_and_a_wake_during_a_pass_is_another(worker: Worker, work: Pass) -> None:
    work.go_on.clear()
    worker.wake()
    work.wait_for_one()
    for _ in range(1_000):
        worker.wake()
    work.go_on.set()
    work.wait_for_one()
    assert not work.happens_within(0.2)
    assert len(work.times) == 2


def test_wakes_from_many_threads_start_one_thread_and_passes_never_overlap(work: Pass) -> None:
    inside: list[int] = []
    overlaps: list[int] = []

    def one() -> float:
        inside.append(1)
        overlaps.append(len(inside))
        time.sleep(0.001)
        inside.pop()
        return work()

    worker = Worker(one)

    def wake_often() -> None:
        for _ in range(200):
            worker.wake()

    wakers = [threading.Thread(target=wake_often) for _ in range(8)]
    for waker in wakers:
        waker.start()
    for waker in wakers:
        waker.join(SOON)
    work.wait_for_one()
    assert worker.stop(SOON)
    assert set(overlaps) == {1}
    assert len(work.threads) == 1


def test_a_wake_never_waits_for_a_pass_that_hangs(worker: Worker, work: Pass) -> None:
    work.go_on.clear()
    worker.wake()
    work.wait_for_one()
    began = time.monotonic()
    for _ in range(1_000):
        worker.wake()
    assert time.monotonic() - began < SOON


def test_stopping_waits_no_longer_than_it_was_told_for_a_pass_that_hangs(worker: Worker, work: Pass) -> None:
    work.go_on.clear()
    worker.wake()
    work.wait_for_one()
    began = time.monotonic()
    assert not worker.stop(0.2)
    assert time.monotonic() - began < SOON
    work.go_on.set()
    until(lambda: not any(thread.is_alive() for thread in work.threads))
    assert len(work.times) == 1


def test_what_is_asleep_stops_at_once_and_what_never_began_has_stopped(worker: Worker, work: Pass) -> None:
    assert worker.stop(0)
    worker.wake(within=3600)
    assert worker.stop(SOON)
    assert work.times == []


def test_a_wake_after_a_stop_is_obeyed_and_what_was_planned_before_is_not(
    worker: Worker, work: Pass, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker.wake(within=600)
    assert worker.stop(SOON)
    with monkeypatch.context() as patch:
        patch.setattr(module, "monotonic", lambda: time.monotonic() + 601)  # it would be due
        worker.wake(within=3600)
        assert not work.happens_within(0.2)
        worker.wake()
        work.wait_for_one()


def test_a_wake_takes_back_a_stop_that_the_thread_has_not_heard(worker: Worker, work: Pass) -> None:
    """There are never two threads, not even while the first one hangs."""
    work.go_on.clear()
    worker.wake()
    work.wait_for_one()
    assert not worker.stop(0)
    worker.wake()
    work.go_on.set()
    work.wait_for_one()
    assert len(work.threads) == 1


def test_work_may_stop_its_own_worker() -> None:
    """As an app does that closes the client inside its function for consent."""
    answers: list[bool] = []
    done = threading.Event()

    def work() -> float:
        answers.append(mine.stop(600))
        done.set()
        return 0.0

    mine = Worker(work)
    mine.wake()
    assert done.wait(SOON)
    assert mine.stop(SOON)
    assert answers == [False]


def test_where_no_thread_can_be_started_a_wake_does_nothing(
    worker: Worker, work: Pass, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", full)
        worker.wake()
    assert not work.happens_within(0.05)
    worker.wake()
    work.wait_for_one()


def test_an_idle_worker_takes_no_processor_time() -> None:
    finished = run("""
        import math, time
        worker = Worker(lambda: math.inf)
        worker.wake()
        time.sleep(0.2)
        began = time.process_time()
        time.sleep(1)
        assert time.process_time() - began < 0.01
    """)
    assert (finished.returncode, finished.stderr) == (0, "")


AT_THE_VERY_END = "class Late:\n    def __del__(self, late={}): late.wake(); late.stop(0.1)\nsys.late = Late()"


@pytest.mark.everyday
@pytest.mark.parametrize(
    "moment",
    [
        "time.sleep(0.05)",  # asleep, working, or about to: whichever it is when the interpreter ends
        "worker.wake()",
        "atexit.register(worker.wake)",
        "atexit.register(lambda: worker.stop(0.1))",
        AT_THE_VERY_END.format("worker"),
        AT_THE_VERY_END.format("Worker(lambda: 0.0)"),
        "threading.Thread(target=lambda: (time.sleep(0.1), worker.wake())).start()",
    ],
)
@pytest.mark.parametrize("work", ["0.0", "math.inf", "time.sleep(3600)"])
def test_no_exit_is_held_up_or_soiled(work: str, moment: str) -> None:
    program = f"import atexit, math, sys, threading, time\nworker = Worker(lambda: {work})\nworker.wake()\n{moment}\n"
    with within(10):
        finished = run(program)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


@forks
def test_a_forked_child_gets_a_thread_of_its_own_even_if_the_fork_came_at_the_worst_moment() -> None:
    """The worst moment: the lock held by a thread that is not there any more, a pass under way, a stop unheard."""
    finished = run("""
        import os, threading, time
        passes = []
        hold = threading.Event()
        begun = threading.Event()
        def work():
            passes.append(os.getpid())
            begun.set()
            hold.wait(200)
            return 3600
        worker = Worker(work)
        worker.wake()
        assert begun.wait(100)
        locked = threading.Event()
        def keep_the_lock():
            with worker._changed:
                locked.set()
                time.sleep(1)
        threading.Thread(target=keep_the_lock, daemon=True).start()
        assert locked.wait(100)
        child = os.fork()
        if not child:
            worker.forget()
            hold, begun = threading.Event(), threading.Event()
            hold.set()
            worker.wake()
            ok = begun.wait(100) and worker.stop(100) and passes[1:] == [os.getpid()]
            os._exit(0 if ok else 1)
        _, status = os.waitpid(child, 0)
        assert status == 0
        hold.set()
        assert worker.stop(100)
        assert passes == [os.getpid()]
    """)
    assert (finished.returncode, finished.stderr) == (0, "")


@forks
def test_a_child_that_wakes_nobody_has_no_thread() -> None:
    finished = run("""
        import os, threading
        worker = Worker(lambda: 0.0)
        worker.wake()
        child = os.fork()
        if not child:
            worker.forget()
            os._exit(0 if threading.active_count() == 1 and worker.stop(0) else 1)
        assert os.waitpid(child, 0)[1] == 0
    """)
    assert (finished.returncode, finished.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no such signals here")
def test_a_signal_handler_may_wake_in_the_middle_of_a_wake() -> None:
    finished = run("""
        import signal
        worker = Worker(lambda: 0.0)
        woken = 0
        def handler(*_):  # one more may come after the timer is off, and then must not take back the stop
            global woken
            if woken < 200:
                woken += 1
                worker.wake()
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        while woken < 200:
            worker.wake(3600)
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert worker.stop(100)
    """)
    assert (finished.returncode, finished.stderr) == (0, "")
