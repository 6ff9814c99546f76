/**
 * Emits the recording code of a kernel. While the world records events, the kernel logs when its programs ran, when
 * they were blocked at flags, and which copies they made from and to other ranks. `log.ts` defines the log. One thread
 * per group records, and it keeps its state in shared memory so that recording occupies no registers between events.
 *
 * - A wait is recorded if the first poll of the flag failed. The log entry of the wait is allocated while the thread
 *   waits.
 * - If a consumer waits at a ring because the producer is blocked at a flag, the wait of the consumer is also recorded
 *   as a wait for that flag. While the producer is blocked but the consumers still have full slots, the consumers count
 *   as working.
 * - A copy by threads lasts from its first access to the last access of the recording thread. When the recorded copy
 *   ends, the loads of the recording thread have completed, but its stores may still be pending.
 * - The wait for copies that threads have in flight (cp.async) is recorded as one copy from the rank that the last of
 *   these copies reads.
 * - For TMA copies only the start is recorded. Consecutive TMA copies of a producer at one source line with one rank
 *   form a single event, from the first start to the last start.
 *
 * The clock is %globaltimer, in nanoseconds. All multiprocessors of a device share this clock. The resolution of
 * %globaltimer depends on the device (`World.clockTick` measures the resolution).
 */
import { walk, type Node } from '../../../ir/node.ts'
import { accessesOf, awaitsFlag, bytesOf, opOf, origin } from '../../../ir/ops/index.ts'
import type { RefType } from '../../../ir/type.ts'
import { eventKind, whatOf } from '../../gpu/log.ts'
import type { RecordedSite } from '../../gpu/platform.ts'
import { code, type Code } from './code.ts'
import type { Emission } from './emission.ts'
import type { Group, RolesPlan } from './groups.ts'
import { lib } from './library.ts'
import { NOTES, RECORDER } from './recorderFunctions.ts'
import type { Region, SharedSpace } from './tiles.ts'

/** The shared memory in which a kernel keeps its recording state. */
export interface RecordPlan {
  readonly region: Region
  /** For each group of threads that writes events, the index of the recorder that holds the group's state. */
  readonly recorders: ReadonlyMap<Group, number>
}

/** Allocates the recording state of a kernel: one recorder for the whole program, followed by one per role. */
export function planRecord(roles: RolesPlan, space: SharedSpace): RecordPlan {
  const groups = [roles.whole, ...roles.groups.values()]
  return {
    region: space.take(NOTES + RECORDER * groups.length, 16),
    recorders: new Map(groups.map((group, i) => [group, i])),
  }
}

export const recordBytes = (roles: RolesPlan): number => 16 + NOTES + RECORDER * (1 + roles.groups.size)

/**
 * The rank whose memory a reference accesses; undefined if the memory is always on this rank, or is not global memory.
 */
export function ownerOf(ref: Node): Node | undefined {
  const { owner } = origin(ref)
  return (ref.type as RefType).space === 'global' && owner?.op !== 'rank' ? owner : undefined
}

/** Writes the recording statements into the kernel's text. */
export class Recorder {
  readonly sites: RecordedSite[] = []
  readonly #emission: Emission
  readonly #plan: RecordPlan
  /** True if threads may have copies from other ranks in flight. */
  readonly #hasFetches: boolean
  readonly #fetches = new Map<Group, { readonly from: string; readonly bytes: string }>()

  constructor(emission: Emission, plan: RecordPlan) {
    this.#emission = emission
    this.#plan = plan
    this.#hasFetches = [...walk(emission.plans.ir.body)].some(
      (node) => opOf(node).completes === 'at quiet' && ownerOf(node.inputs[0]) !== undefined,
    )
  }

  get #log(): Code {
    return this.#emission.params.log
  }
  get #notes(): Code {
    return code`shared + ${this.#plan.region.at}`
  }
  get #role(): number {
    return this.#plan.recorders.get(this.#emission.group)!
  }
  get #own(): Code {
    return code`shared + ${this.#plan.region.at + NOTES + RECORDER * this.#role}`
  }

  /** The 32-bit word that encodes the kind, the role and the source site of an event. */
  #what(kind: number, node: Node, flags?: string): Code {
    const line = node.site?.line ?? ''
    let site = this.sites.findIndex((one) => one.line === line && one.flags === flags)
    if (site < 0) site = this.sites.push({ line, flags }) - 1
    return code`${whatOf(kind, this.#role, site)}u`
  }

  /** Emits the first recording statement of the kernel, which records that a program begins. */
  begins(): void {
    const { out } = this.#emission
    out.line(code`if (thread == 0) ${lib.program_begins}(${this.#notes}, ${this.#plan.recorders.size});`)
  }

  /**
   * Emits the last recording statement of the kernel: a program ends. The threads have synchronised before this
   * statement.
   */
  ends(): void {
    const { out } = this.#emission
    out.line(
      code`if (thread == 0) ${lib.program_ends}(${this.#log}, ${this.#notes}, ${whatOf(eventKind.program, 0, 0)}u);`,
    )
  }

  /** Returns a call that waits for a flag and records the wait. */
  flagWait(node: Node, flags: string, pointer: Code, value: Code, site: number, owner: Code): Code {
    const { group, params } = this.#emission
    const what = this.#what(eventKind.wait, node, flags)
    // Only a producer stores its wait in `notes`, so that consumers that wait for the producer can attribute their
    // waits.
    const notes = group.solo ? this.#notes : '0'
    return code`${lib.flag_wait_recorded}(${pointer}, ${value}, ${params.control}, ${site}, ${owner}, ${this.#log}, ${notes}, ${this.#own}, ${what});`
  }

  /**
   * Returns an expression that waits for a slot of a ring and records the wait. Returns undefined if no other role
   * waits for flags.
   */
  slotWait(barrier: Code, parity: Code): Code | undefined {
    const { group, plans, params, leader } = this.#emission
    const isKept = [...plans.roles.groups].some(
      ([block, other]) => other !== group && [...walk(block)].some(awaitsFlag),
    )
    if (!isKept) return undefined
    const role = code`${whatOf(0, this.#role, 0)}u`
    return code`${lib.barrier_await_recorded}(${barrier}, ${parity}, ${params.control}, ${this.#log}, ${this.#notes}, ${this.#own}, ${role}, ${leader})`
  }

  /** Records a copy by the threads of the group. `last` returns the bits of the value that was loaded last. */
  copy(node: Node, owner: Node, copy: () => void, last?: () => Code): void {
    const { out, names, params, leader, group } = this.#emission
    const start = names.take('copy_start')
    out.line(
      code`const u64 ${start} = ${group.solo ? '' : code`${leader} ? `}${lib.time_now}()${group.solo ? '' : ' : 0'};`,
      node.site,
    )
    copy()
    const rank = this.#emission.scalar(owner)
    out.block(code`if (${group.solo ? '' : code`${leader} && `}${rank} != ${params.rank})`, () => {
      if (last) out.line(code`${lib.has_arrived}(${this.#own}, ${last()});`)
      const what = this.#what(eventKind.copy, node)
      out.line(
        code`${lib.write_event}(${this.#log}, ${this.#own}, ${what}, ${rank}, ${bytesMoved(node)}, ${start}, ${lib.time_now}());`,
      )
    })
  }

  /**
   * Adds a cp.async copy that the threads of the group have started to the copies that the next call of `fetched`
   * records.
   */
  fetching(node: Node, owner: Node): void {
    const { out, params, leader, group } = this.#emission
    const { from, bytes } = this.#fetchesOf(group)
    const rank = this.#emission.scalar(owner)
    const own = code`${leader} && ${rank} != ${params.rank}`
    out.line(code`if (${own}) ${from} = ${rank}, ${bytes} += ${bytesMoved(node)};`, node.site)
  }

  /** Records the wait for cp.async copies that the threads of the group have in flight. */
  fetched(node: Node, wait: () => void): void {
    const { out, names, params, group } = this.#emission
    if (!this.#hasFetches) return wait()
    const { from, bytes } = this.#fetchesOf(group)
    const start = names.take('fetch_start')
    out.line(code`const u64 ${start} = ${from} == ${params.rank} ? 0 : ${lib.time_now}();`, node.site)
    wait()
    out.block(code`if (${from} != ${params.rank})`, () => {
      const what = this.#what(eventKind.copy, node)
      out.line(
        code`${lib.write_event}(${this.#log}, ${this.#own}, ${what}, ${from}, ${bytes}, ${start}, ${lib.time_now}());`,
      )
      out.line(code`${from} = ${params.rank}, ${bytes} = 0;`)
    })
  }

  /**
   * Returns the names of two variables: the last rank from which the group copies by cp.async, and the number of bytes
   * of these copies. Only the thread that records the events of the group changes the two variables.
   */
  #fetchesOf(group: Group): { readonly from: string; readonly bytes: string } {
    let known = this.#fetches.get(group)
    if (!known) {
      const { rank } = this.#emission.params
      const from = this.#emission.remember('fetched_from', (name) => code`${lib.i32} ${name} = ${rank};`)
      const bytes = this.#emission.remember('fetched_bytes', (name) => code`u32 ${name} = 0;`)
      this.#fetches.set(group, (known = { from, bytes }))
    }
    return known
  }

  /** Records TMA copies that one thread starts. */
  started(node: Node, owner: Node, start: () => void): void {
    const { out, params } = this.#emission
    const rank = this.#emission.scalar(owner)
    const isRemote = code`if (${rank} != ${params.rank}) `
    const what = this.#what(eventKind.copy, node)
    out.line(code`${isRemote}${lib.copies_begin}(${this.#log}, ${this.#own}, ${what}, ${rank});`, node.site)
    start()
    out.line(code`${isRemote}${lib.copies_go_on}(${this.#own}, ${bytesMoved(node)});`)
  }

  /** Emits the recording statement at the end of a group's code. */
  groupEnds(): void {
    const { group, out } = this.#emission
    if (group.solo) out.line(code`${lib.copies_end}(${this.#log}, ${this.#own});`)
  }
}

/** The number of bytes that a copy moves. A copy reads as many bytes as it writes. */
function bytesMoved(node: Node): number {
  return Math.max(...accessesOf(node).map(({ ref }) => bytesOf(ref.type as RefType)))
}
