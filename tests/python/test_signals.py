"""Long calls leave Python's lock to others, and end when a signal's handler raises."""

import contextlib
import os
import signal
import threading
import time

import numpy as np
import pytest

import mainstem as ms


@pytest.fixture(scope="module")
def slow_block():
    """A block in double, an input that it takes about a second for, and the seconds."""
    spec = ms.BlockSpec(
        width=512, attention=ms.AttentionSpec(heads=8, head_width=64), mlp=ms.MlpSpec(hidden=2048)
    )
    random = np.random.default_rng(0)
    shapes = ms.Block.weight_shapes(spec)
    weights = {name: random.standard_normal(shape) / 30 for name, shape in shapes.items()}
    block, x = ms.Block(spec, weights), random.standard_normal((1, 500, 512))
    start = time.monotonic()
    block.forward(x, threads=1)
    return block, x, time.monotonic() - start


@contextlib.contextmanager
def handler(number, function):
    before = signal.signal(number, function)
    try:
        yield
    finally:
        signal.signal(number, before)


def test_an_interrupt_ends_a_pass(slow_block):
    block, x, whole = slow_block
    killer = threading.Timer(whole / 4, os.kill, (os.getpid(), signal.SIGINT))
    # What a shell starts in the background ignores interrupts.
    with handler(signal.SIGINT, signal.default_int_handler):
        start = time.monotonic()
        killer.start()
        with pytest.raises(KeyboardInterrupt):
            block.forward(x, threads=1)
        assert time.monotonic() - start < whole
        killer.join()
    assert block.forward(x[:, :4]).shape == (1, 4, 512)  # goes on working


def test_a_handler_of_ones_own_may_raise_anything(slow_block):
    block, x, whole = slow_block

    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    with handler(signal.SIGALRM, ring):
        signal.setitimer(signal.ITIMER_REAL, whole / 4)
        try:
            with pytest.raises(Alarm):
                block.forward(x, threads=1)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)


def test_other_threads_go_on(slow_block):
    block, x, whole = slow_block
    ticks = []
    done = threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.monotonic())
            time.sleep(whole / 50)

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.monotonic()
    block.forward(x, threads=1)
    end = time.monotonic()
    done.set()
    thread.join()
    assert len([each for each in ticks if start < each < end]) > 5


def test_calls_from_several_threads(llama):
    want = llama.forward([3, 1, 4])
    results = []
    threads = [threading.Thread(target=lambda: results.append(llama.forward([3, 1, 4]))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4 and all((each == want).all() for each in results)
