/**
 * Emits the recording code of a kernel. While the world records, the kernel logs when its programs ran, when they were
 * blocked at flags, and which copies they made from and to other ranks. `log.ts` defines the log. One thread per group
 * records, and it keeps its state in shared memory so that recording occupies no registers between events.
 *
 * - A wait is recorded if the first poll of the flag failed. The log entry of the wait is allocated while the thread
 *   waits.
 * - A consumer may wait at a ring because the producer is blocked at a flag. The consumer's wait at the ring is then
 *   recorded as a wait for that flag too. While the producer is blocked but the consumers still have full slots, the
 *   consumers count as working.
 * - A copy by threads lasts from its first access to the last access of the recording thread. The loads of that thread
 *   have completed by then. Its stores may still be pending.
 * - For TMA copies only the start is recorded. Consecutive TMA copies of a producer at one source line with one rank
 *   form a single event, from the first start to the last start.
 *
 * The clock is %globaltimer, in nanoseconds. All multiprocessors of a device share it. Its resolution depends on the
 * device (`World.clockTick` measures it).
 */
import { walk, type Node } from '../../../ir/node.ts'
import { bytesAccessed } from '../../../ir/ops/index.ts'
import type { RefType } from '../../../ir/type.ts'
import { eventKind, eventsAClaim, LOG_TYPES, mostEvents, mostLaunches, whatOf } from '../log.ts'
import type { Emission } from './emission.ts'
import type { Group, RolesPlan } from './groups.ts'
import type { RecordedSite } from './recipe.ts'
import type { Region, SharedSpace } from './tiles.ts'
import { viewOf } from './views.ts'
import { lineOf } from './writer.ts'

/** The recording state in shared memory, in bytes: `NOTES` per program, and `RECORDER` per group that writes events. */
const NOTES = 32
const RECORDER = 32

const inline = '__device__ __forceinline__'

export const RECORDING = `${LOG_TYPES}
${inline} u64 time_now() { u64 now; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now) :: "memory"); return now; }
${inline} u32 own_multiprocessor() { u32 number; asm volatile("mov.u32 %0, %%smid;" : "=r"(number)); return number; }

// In shared memory. Notes of a program: its start; the last wait of a role at a flag: its start, end, what and who.
// A recorder: the place of the next event; copies that belong together: what, who, bytes, start, end.
${inline} void program_begins(u32 notes, u32 recorders) {
  shared_store<u64>(notes, time_now());
  shared_store<u64>(notes + 16, 0);
  for (u32 i = 0; i < recorders; ++i) shared_store<u64>(notes + ${NOTES} + i * ${RECORDER}, 0xffffffffu);
}
// A place for an event of this thread's; several are taken at once.
${inline} u32 event_place(Log* event_log, u32 recorder) {
  u32 place = shared_load<u32>(recorder);
  if (place == 0xffffffffu) {
    place = atomicAdd(&event_log->claimed, ${eventsAClaim}u);
    shared_store<u32>(recorder, place);
  }
  return place;
}
${inline} void write_event(Log* event_log, u32 recorder, u32 what, i32 who, u32 amount, u64 start, u64 end) {
  const u32 launch = *(volatile u32*)&event_log->launches;
  const u32 place = event_place(event_log, recorder);
  shared_store<u32>(recorder, place % ${eventsAClaim} == ${eventsAClaim - 1} ? 0xffffffffu : place + 1);
  if (place >= ${mostEvents} || launch >= ${mostLaunches}) {
    atomicAdd(&event_log->lost, 1u);
    return;
  }
  event_log->events[place] = { start, end, launch, what, who, amount, blockIdx.x, own_multiprocessor(), { 0, 0 } };
}
// All programs have read which launch this is when the last one adds it to those that have ended.
${inline} void program_ends(Log* event_log, u32 notes, u32 what) {
  const u64 start = shared_load<u64>(notes), end = time_now();
  write_event(event_log, notes + ${NOTES}, what, (i32)blockIdx.x, 0, start, end);
  const u32 launch = *(volatile u32*)&event_log->launches;
  if (launch >= ${mostLaunches}) return;
  LaunchTimes* times = &event_log->times[launch];
  atomicMax(&times->start_complement, ~start);
  atomicMax(&times->end, end);
  if (atomicAdd(&times->programs, 1u) + 1 == gridDim.x) *(volatile u32*)&event_log->launches = launch + 1;
}
${inline} void copies_end(Log* event_log, u32 recorder) {
  const u32 what = shared_load<u32>(recorder + 4);
  if (what == 0) return;
  write_event(event_log, recorder, what, shared_load<i32>(recorder + 8), shared_load<u32>(recorder + 12), shared_load<u64>(recorder + 16), shared_load<u64>(recorder + 24));
  shared_store<u32>(recorder + 4, 0);
}
// Before and after copies are started with a rank: those of the same line and rank are one event.
${inline} void copies_begin(Log* event_log, u32 recorder, u32 what, i32 owner) {
  if (shared_load<u32>(recorder + 4) == what && shared_load<i32>(recorder + 8) == owner) return;
  copies_end(event_log, recorder);
  shared_store<u32>(recorder + 4, what);
  shared_store<i32>(recorder + 8, owner);
  shared_store<u32>(recorder + 12, 0);
  shared_store<u64>(recorder + 16, time_now());
}
${inline} void copies_go_on(u32 recorder, u32 bytes) {
  shared_store<u32>(recorder + 12, shared_load<u32>(recorder + 12) + bytes);
  shared_store<u64>(recorder + 24, time_now());
}
${inline} void flag_wait_recorded(const u32* flag, u32 wanted, Control* control, u32 site, u32 owner, Log* event_log, u32 notes, u32 recorder, u32 what) {
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
}
// A flag that kept the producer until after this wait began kept whoever waits for the producer.
${inline} bool barrier_await_recorded(u32 barrier, u32 parity, const Control* control, Log* event_log, u32 notes, u32 recorder, u32 role, bool tells) {
  if (barrier_try(barrier, parity)) return true;
  const u64 start = tells ? time_now() : 0;
  const bool arrived = barrier_await(barrier, parity, control);
  if (tells && shared_load<u64>(notes + 16) > start) {
    const u64 kept = shared_load<u64>(notes + 8);
    const u32 what = shared_load<u32>(notes + 24) & ~${whatOf(0, 15, 0)}u | role;
    write_event(event_log, recorder, what, shared_load<i32>(notes + 28), 0, start > kept ? start : kept, time_now());
  }
  return arrived;
}
// A store waits for its operand: what was loaded last has arrived.
${inline} void has_arrived(u32 recorder, u32 bits) { shared_store<u32>(recorder + 12, bits); }
`

/** The shared memory in which a kernel keeps its recording state. */
export interface RecordPlan {
  readonly region: Region
  /** The index of each group's recorder. */
  readonly recorders: ReadonlyMap<Group, number>
}

/** Allocates one recorder for the whole program, followed by one per role. */
export function planRecord(roles: RolesPlan, space: SharedSpace): RecordPlan {
  const groups = [roles.whole, ...roles.groups.values()]
  return {
    region: space.take(NOTES + RECORDER * groups.length, 16),
    recorders: new Map(groups.map((group, i) => [group, i])),
  }
}

export const recordBytes = (roles: RolesPlan): number => 16 + NOTES + RECORDER * (1 + roles.groups.size)

/** The rank whose memory a reference accesses; undefined if it is always this rank, or not global memory. */
export function ownerOf(ref: Node): Node | undefined {
  const isGlobal = ref.op === 'tile' || ref.op === 'rows' || ref.op === 'at'
  return isGlobal && (ref.type as RefType).space === 'global' ? viewOf(ref.inputs[0]).owner : undefined
}

/** Writes the recording statements into the kernel's text. */
export class Recorder {
  readonly sites: RecordedSite[] = []
  readonly #emission: Emission
  readonly #plan: RecordPlan

  constructor(emission: Emission, plan: RecordPlan) {
    this.#emission = emission
    this.#plan = plan
  }

  get #log(): string {
    return this.#emission.params.log
  }
  get #notes(): string {
    return `shared + ${this.#plan.region.at}`
  }
  get #role(): number {
    return this.#plan.recorders.get(this.#emission.group)!
  }
  get #own(): string {
    return `shared + ${this.#plan.region.at + NOTES + RECORDER * this.#role}`
  }

  /** The word that encodes an event's kind, role and source site. */
  #what(kind: number, node: Node, flags?: string): string {
    const line = lineOf(node.site) ?? ''
    let site = this.sites.findIndex((one) => one.line === line && one.flags === flags)
    if (site < 0) site = this.sites.push({ line, flags }) - 1
    return `${whatOf(kind, this.#role, site)}u`
  }

  /** Emits the first recording statement of the kernel: a program begins. */
  begins(): void {
    const { out } = this.#emission
    out.line(`if (thread == 0) program_begins(${this.#notes}, ${this.#plan.recorders.size});`)
  }

  /** Emits the last recording statement of the kernel: a program ends. */
  ends(): void {
    const { out } = this.#emission
    out.line('__syncthreads();')
    out.line(
      `if (thread == 0) program_ends(${this.#log}, ${this.#notes}, ${whatOf(eventKind.program, 0, 0)}u);`,
    )
  }

  /** Returns a call that waits for a flag and records the wait. */
  flagWait(node: Node, flags: string, pointer: string, value: string, site: number, owner: string): string {
    const { group, params } = this.#emission
    const what = this.#what(eventKind.wait, node, flags)
    // Only the wait of a producer is stored in the notes, because consumers wait for the producer.
    const notes = group.solo ? this.#notes : '0'
    return `flag_wait_recorded(${pointer}, ${value}, ${params.control}, ${site}, ${owner}, ${this.#log}, ${notes}, ${this.#own}, ${what});`
  }

  /**
   * Returns an expression that waits for a slot of a ring and records the wait; undefined if no other role waits for
   * flags.
   */
  slotWait(barrier: string, parity: string): string | undefined {
    const { group, plans, params, leader } = this.#emission
    const isKept = [...plans.roles.groups].some(
      ([block, other]) => other !== group && [...walk(block)].some(({ op }) => op === 'wait'),
    )
    if (!isKept) return undefined
    const role = `${whatOf(0, this.#role, 0)}u`
    return `barrier_await_recorded(${barrier}, ${parity}, ${params.control}, ${this.#log}, ${this.#notes}, ${this.#own}, ${role}, ${leader})`
  }

  /** Records a copy by the threads of the group. `last` returns the bits of the value that was loaded last. */
  copy(node: Node, owner: Node, copy: () => void, last?: () => string): void {
    const { out, names, params, leader, group } = this.#emission
    const start = names.take('copy_start')
    out.line(
      `const u64 ${start} = ${group.solo ? '' : `${leader} ? `}time_now()${group.solo ? '' : ' : 0'};`,
      node.site,
    )
    copy()
    const rank = this.#emission.scalar(owner)
    out.block(`if (${group.solo ? '' : `${leader} && `}${rank} != ${params.rank})`, () => {
      if (last) out.line(`has_arrived(${this.#own}, ${last()});`)
      const what = this.#what(eventKind.copy, node)
      out.line(
        `write_event(${this.#log}, ${this.#own}, ${what}, ${rank}, ${bytesMoved(node)}, ${start}, time_now());`,
      )
    })
  }

  /** Records TMA copies that one thread starts. */
  started(node: Node, owner: Node, start: () => void): void {
    const { out, params } = this.#emission
    const rank = this.#emission.scalar(owner)
    const isRemote = `if (${rank} != ${params.rank}) `
    const what = this.#what(eventKind.copy, node)
    out.line(`${isRemote}copies_begin(${this.#log}, ${this.#own}, ${what}, ${rank});`, node.site)
    start()
    out.line(`${isRemote}copies_go_on(${this.#own}, ${bytesMoved(node)});`)
  }

  /** Emits the recording statement at the end of a group's code. */
  groupEnds(): void {
    const { group, out } = this.#emission
    if (group.solo) out.line(`copies_end(${this.#log}, ${this.#own});`)
  }
}

/** The number of bytes that a copy moves; it reads as many bytes as it writes. */
function bytesMoved(node: Node): number {
  const { read, written } = bytesAccessed(node)
  return Math.max(read, written)
}
