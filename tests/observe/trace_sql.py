"""A Perfetto trace as SQL tables, and the questions that a person asks of it.

Where Perfetto's trace_processor is installed (TRACE_PROCESSOR names its binary, which the package on
PyPI fetches from elsewhere) it answers. Else the file is decoded by Perfetto's own messages, from that
package, and laid out in SQLite with trace_processor's names: slice, process_track, process, flow, and
the function EXTRACT_ARG. The questions are the same text for both.
"""

import os
import sqlite3
from pathlib import Path

KERNELS = """
    SELECT process.pid AS pid, EXTRACT_ARG(slice.arg_set_id, 'debug.kernel') AS kernel,
           COUNT(*) AS launches, SUM(slice.dur) AS device_ns
    FROM slice JOIN process_track ON slice.track_id = process_track.id JOIN process USING (upid)
    WHERE slice.category = 'kernel' GROUP BY pid, kernel ORDER BY pid, kernel"""
ON_SMS = """
    SELECT EXTRACT_ARG(slice.arg_set_id, 'debug.client') AS pid, SUM(slice.dur) AS sm_active_ns
    FROM slice JOIN process_track ON slice.track_id = process_track.id
    WHERE slice.category = 'sm' GROUP BY pid ORDER BY pid"""
COPIES = """
    SELECT process.pid AS pid, slice.name AS name, SUM(EXTRACT_ARG(slice.arg_set_id, 'debug.bytes')) AS bytes
    FROM slice JOIN process_track ON slice.track_id = process_track.id JOIN process USING (upid)
    WHERE slice.category = 'copy' GROUP BY process.pid, slice.name ORDER BY process.pid, slice.name"""
# Arrows that do not lead from a submission to work that began later.
WRONG_ARROWS = """
    SELECT COUNT(*) AS wrong FROM flow JOIN slice AS a ON flow.slice_out = a.id JOIN slice AS b ON flow.slice_in = b.id
    WHERE a.category != 'submission' OR b.category = 'submission' OR b.ts < a.ts OR a.name != b.name"""
ARROWS = "SELECT COUNT(*) AS arrows FROM flow"
# Slices of one track that overlap without one being within the other: a reader would misread them.
CROSSED = """
    SELECT COUNT(*) AS crossed FROM slice AS a JOIN slice AS b ON a.track_id = b.track_id AND a.id < b.id
    WHERE a.ts < b.ts AND b.ts < a.ts + a.dur AND a.ts + a.dur < b.ts + b.dur"""
RANGES = """
    SELECT slice.name AS name, slice.depth AS depth, COUNT(*) AS times FROM slice
    WHERE slice.category = 'nvtx' GROUP BY slice.name, slice.depth ORDER BY slice.depth, slice.name"""
# Kernels that began while a range of their program was open.
WITHIN = """
    SELECT r.name AS name, COUNT(*) AS kernels
    FROM slice AS r JOIN process_track AS rt ON r.track_id = rt.id
    JOIN process_track AS kt ON kt.upid = rt.upid JOIN slice AS k ON k.track_id = kt.id
    WHERE r.category = 'nvtx' AND k.category = 'kernel' AND k.ts >= r.ts AND k.ts < r.ts + r.dur
    GROUP BY r.name ORDER BY r.name"""


class Database:
    """Answers questions on one trace; each answer is a list of dictionaries."""

    def __init__(self, path):
        binary = os.environ.get("TRACE_PROCESSOR")
        if binary:
            from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig
            self.processor = TraceProcessor(trace=str(path), config=TraceProcessorConfig(bin_path=binary))
            self.reader = "trace_processor"
        else:
            self.processor = None
            self.database = tables(Path(path).read_bytes())
            self.reader = "Perfetto's messages and SQLite"

    def ask(self, question):
        if self.processor:
            return [dict(vars(row)) for row in self.processor.query(question)]
        rows = self.database.execute(question)
        names = [column[0] for column in rows.description]
        return [dict(zip(names, row)) for row in rows]


def tables(data):
    """The tables of a trace's bytes. What trace_processor would count as an error stops here."""
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as messages

    trace = messages.Trace()
    trace.ParseFromString(data)
    database = sqlite3.connect(":memory:")
    database.executescript("""
        CREATE TABLE process (upid INTEGER PRIMARY KEY, pid INTEGER, name TEXT);
        CREATE TABLE process_track (id INTEGER PRIMARY KEY, name TEXT, upid INTEGER);
        CREATE TABLE slice (id INTEGER PRIMARY KEY, ts INTEGER, dur INTEGER, track_id INTEGER, category TEXT,
                            name TEXT, depth INTEGER, arg_set_id INTEGER);
        CREATE TABLE flow (slice_out INTEGER, slice_in INTEGER);
        CREATE INDEX slice_track ON slice (track_id, ts);""")
    arguments = {}
    database.create_function("EXTRACT_ARG", 2, lambda of, key: arguments.get(of, {}).get(key))
    descriptors, upids, parents = {}, {}, {}
    begun, out, events = {}, {}, []
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            descriptor = packet.track_descriptor
            assert descriptor.uuid not in descriptors, "a track is described twice"
            descriptors[descriptor.uuid] = descriptor
            parents[descriptor.uuid] = descriptor.parent_uuid
            if descriptor.HasField("process"):
                upids[descriptor.uuid] = len(upids) + 1
                database.execute("INSERT INTO process VALUES (?, ?, ?)", (
                    upids[descriptor.uuid], descriptor.process.pid, descriptor.process.process_name))
        elif packet.HasField("track_event"):
            assert packet.timestamp_clock_id == 3, "times are of CLOCK_MONOTONIC"
            assert packet.track_event.track_uuid in descriptors, "an event without a track"
            events.append(packet)
    for uuid, descriptor in descriptors.items():
        above = uuid
        while above and above not in upids:
            above = parents[above]
        database.execute("INSERT INTO process_track VALUES (?, ?, ?)",
                         (uuid, descriptor.name, upids.get(above)))
    slices, number = {}, 0
    # As trace_processor does: by time, and by the order in the file where times are the same.
    for packet in sorted(events, key=lambda packet: packet.timestamp):
        event = packet.track_event
        stack = begun.setdefault(event.track_uuid, [])
        if event.type == messages.TrackEvent.TYPE_SLICE_BEGIN:
            number += 1
            arguments[number] = {
                "debug." + note.name: getattr(note, note.WhichOneof("value")) for note in event.debug_annotations}
            slices[number] = [number, packet.timestamp, None, event.track_uuid, ",".join(event.categories),
                              event.name, len(stack), number]
            for flow in event.flow_ids:
                out[flow] = number
            for flow in event.terminating_flow_ids:
                assert flow in out, "an arrow that begins nowhere"
                database.execute("INSERT INTO flow VALUES (?, ?)", (out[flow], number))
            stack.append(number)
        else:
            assert stack, "a slice ends that has not begun"
            row = slices[stack.pop()]
            row[2] = packet.timestamp - row[1]
    assert not any(begun.values()), "a slice has no end"
    database.executemany("INSERT INTO slice VALUES (?, ?, ?, ?, ?, ?, ?, ?)", slices.values())
    return database
