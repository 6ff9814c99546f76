/**
 * Defines the device functions with which a kernel records its events (record.ts). Each device function is a record of
 * its text and of the names of the declarations that it uses.
 */
import { eventsAClaim, mostEvents, mostLaunches, whatOf } from '../../gpu/log.ts'
import { inline, type Library } from '../declaration.ts'

/** The recording state in shared memory, in bytes: `NOTES` per program, and `RECORDER` per group that writes events. */
export const NOTES = 32
export const RECORDER = 32

/** The layout of a log (gpu/log.ts) as CUDA C++ types. */
const LOG_TYPES = {
  LaunchTimes: {
    uses: ['u64', 'u32'],
    text: 'struct LaunchTimes { u64 start_complement, end; u32 programs, unused[3]; };',
  },
  Event: {
    uses: ['u64', 'u32', 'i32'],
    text: 'struct alignas(16) Event { u64 start, end; u32 launch, what; i32 who; u32 amount, program, multiprocessor, unused[2]; };',
  },
  Log: {
    uses: ['u32', 'LaunchTimes', 'Event'],
    text: `struct Log { u32 launches, claimed, lost, unused[13]; LaunchTimes times[${mostLaunches}]; Event events[${mostEvents}]; };`,
  },
} as const satisfies Library

export const RECORDING = {
  ...LOG_TYPES,
  time_now: {
    uses: ['u64'],
    text: `${inline} u64 time_now() { u64 now; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now) :: "memory"); return now; }`,
  },
  own_multiprocessor: {
    uses: ['u32'],
    text: `${inline} u32 own_multiprocessor() { u32 number; asm volatile("mov.u32 %0, %%smid;" : "=r"(number)); return number; }`,
  },
  program_begins: {
    note: [
      `Initialises the recording state in shared memory. \`notes\` has the start time of the program and the last wait for a flag`,
      `in a role: start, end, \`what\` (event code with role and source line), \`who\` (rank). Each recorder has the index of its next`,
      `event in the log, and the event of consecutive copies: \`what\`, \`who\`, bytes, start, end.`,
    ],
    uses: ['u32', 'shared_store', 'u64', 'time_now'],
    text: `${inline} void program_begins(u32 notes, u32 recorders) {
  shared_store<u64>(notes, time_now());
  shared_store<u64>(notes + 16, 0);
  for (u32 i = 0; i < recorders; ++i) shared_store<u64>(notes + ${NOTES} + i * ${RECORDER}, 0xffffffffu);
}`,
  },
  event_place: {
    note: [
      `Returns the index in the log of the recorder's next event. A recorder claims ${eventsAClaim} indices at once.`,
    ],
    uses: ['u32', 'Log', 'shared_load', 'shared_store'],
    text: `${inline} u32 event_place(Log* event_log, u32 recorder) {
  u32 place = shared_load<u32>(recorder);
  if (place == 0xffffffffu) {
    place = atomicAdd(&event_log->claimed, ${eventsAClaim}u);
    shared_store<u32>(recorder, place);
  }
  return place;
}`,
  },
  write_event: {
    uses: ['Log', 'u32', 'i32', 'u64', 'event_place', 'shared_store', 'own_multiprocessor'],
    text: `${inline} void write_event(Log* event_log, u32 recorder, u32 what, i32 who, u32 amount, u64 start, u64 end) {
  const u32 launch = *(volatile u32*)&event_log->launches;
  const u32 place = event_place(event_log, recorder);
  shared_store<u32>(recorder, place % ${eventsAClaim} == ${eventsAClaim - 1} ? 0xffffffffu : place + 1);
  if (place >= ${mostEvents} || launch >= ${mostLaunches}) {
    atomicAdd(&event_log->lost, 1u);
    return;
  }
  event_log->events[place] = { start, end, launch, what, who, amount, blockIdx.x, own_multiprocessor(), { 0, 0 } };
}`,
  },
  program_ends: {
    note: [
      `Records the end of a program. The last program of a launch increments the launch number in the log. By then, every`,
      `program of the launch has read that number.`,
    ],
    uses: ['Log', 'u32', 'u64', 'shared_load', 'time_now', 'write_event', 'i32', 'LaunchTimes'],
    text: `${inline} void program_ends(Log* event_log, u32 notes, u32 what) {
  const u64 start = shared_load<u64>(notes), end = time_now();
  write_event(event_log, notes + ${NOTES}, what, (i32)blockIdx.x, 0, start, end);
  const u32 launch = *(volatile u32*)&event_log->launches;
  if (launch >= ${mostLaunches}) return;
  LaunchTimes* times = &event_log->times[launch];
  atomicMax(&times->start_complement, ~start);
  atomicMax(&times->end, end);
  if (atomicAdd(&times->programs, 1u) + 1 == gridDim.x) *(volatile u32*)&event_log->launches = launch + 1;
}`,
  },
  copies_end: {
    note: [`Writes the event of the copies that the recorder has collected, if there are any.`],
    uses: ['Log', 'u32', 'shared_load', 'write_event', 'i32', 'u64', 'shared_store'],
    text: `${inline} void copies_end(Log* event_log, u32 recorder) {
  const u32 what = shared_load<u32>(recorder + 4);
  if (what == 0) return;
  write_event(event_log, recorder, what, shared_load<i32>(recorder + 8), shared_load<u32>(recorder + 12), shared_load<u64>(recorder + 16), shared_load<u64>(recorder + 24));
  shared_store<u32>(recorder + 4, 0);
}`,
  },
  copies_begin: {
    note: [
      `Called before copies from or to a rank are started. Consecutive copies of the same source line and rank are one event.`,
    ],
    uses: ['Log', 'u32', 'i32', 'shared_load', 'copies_end', 'shared_store', 'u64', 'time_now'],
    text: `${inline} void copies_begin(Log* event_log, u32 recorder, u32 what, i32 owner) {
  if (shared_load<u32>(recorder + 4) == what && shared_load<i32>(recorder + 8) == owner) return;
  copies_end(event_log, recorder);
  shared_store<u32>(recorder + 4, what);
  shared_store<i32>(recorder + 8, owner);
  shared_store<u32>(recorder + 12, 0);
  shared_store<u64>(recorder + 16, time_now());
}`,
  },
  copies_go_on: {
    note: [`Called after copies were started. Adds their bytes to the event of these copies.`],
    uses: ['u32', 'shared_store', 'shared_load', 'u64', 'time_now'],
    text: `${inline} void copies_go_on(u32 recorder, u32 bytes) {
  shared_store<u32>(recorder + 12, shared_load<u32>(recorder + 12) + bytes);
  shared_store<u64>(recorder + 24, time_now());
}`,
  },
  flag_wait_recorded: {
    uses: [
      'u32',
      'Control',
      'Log',
      'flag_reached',
      'flag_load',
      'u64',
      'time_now',
      'copies_end',
      'event_place',
      'flag_wait',
      'write_event',
      'i32',
      'shared_store',
    ],
    text: `${inline} void flag_wait_recorded(const u32* flag, u32 wanted, Control* control, u32 site, u32 owner, Log* event_log, u32 notes, u32 recorder, u32 what) {
  if (flag_reached(flag_load(flag), wanted)) return;
  const u64 start = time_now();
  copies_end(event_log, recorder);
  event_place(event_log, recorder);
  flag_wait(flag, wanted, control, site, owner);
  const u64 end = time_now();
  write_event(event_log, recorder, what, (i32)owner, 0, start, end);
  if (notes == 0) return;
  shared_store<u64>(notes + 8, start);
  shared_store<u64>(notes + 16, end);
  shared_store<u32>(notes + 24, what);
  shared_store<u32>(notes + 28, owner);
}`,
  },
  barrier_await_recorded: {
    note: [
      `Waits at an mbarrier. If the producer waited for a flag after this wait began, the event attributes this wait to the flag.`,
    ],
    uses: [
      'u32',
      'Control',
      'Log',
      'barrier_try',
      'u64',
      'time_now',
      'barrier_await',
      'shared_load',
      'write_event',
      'i32',
    ],
    text: `${inline} bool barrier_await_recorded(u32 barrier, u32 parity, const Control* control, Log* event_log, u32 notes, u32 recorder, u32 role, bool tells) {
  if (barrier_try(barrier, parity)) return true;
  const u64 start = tells ? time_now() : 0;
  const bool arrived = barrier_await(barrier, parity, control);
  if (tells && shared_load<u64>(notes + 16) > start) {
    const u64 kept = shared_load<u64>(notes + 8);
    const u32 what = shared_load<u32>(notes + 24) & ~${whatOf(0, 15, 0)}u | role;
    write_event(event_log, recorder, what, shared_load<i32>(notes + 28), 0, start > kept ? start : kept, time_now());
  }
  return arrived;
}`,
  },
  has_arrived: {
    note: [
      `Stores \`bits\`, the result of a load, to shared memory. The thread thus waits until the load has completed.`,
    ],
    uses: ['u32', 'shared_store'],
    text: `${inline} void has_arrived(u32 recorder, u32 bits) { shared_store<u32>(recorder + 12, bits); }`,
  },
} as const satisfies Library
