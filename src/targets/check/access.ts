/**
 * Weak accesses in the checker: detects races with the shadow memory, reads of memory that was never written, and
 * accesses outside a tensor.
 */
import type { Node } from '../../ir/node.ts'
import { describe, type Agent, type ComponentRecord } from './agent.ts'
import { historyOf, type Location } from './atomics.ts'
import { StopRun, type Finding, type FindingKind, type Party } from './findings.ts'
import type { Accessor, Buffer, Conflict } from './memory.ts'

/**
 * A view that exceeds the bounds of its tensor, flag set or world. The checker reports such a view only when the kernel
 * uses the view.
 */
export interface WrongView {
  readonly node: Node
  readonly message: string
}

/**
 * Elements of one buffer, given by their indices. In a list of indices, an element with index MASKED is skipped. In a
 * list of indices, accessing an element with index OUTSIDE is an error.
 */
export interface Places {
  readonly buffer: Buffer
  readonly index: Int32Array
  /** True if an index may occur more than once, because the kernel computed the indices from data. */
  readonly mayRepeat?: boolean
  /** Present only if the view exceeds its bounds: describes the view, all of whose indices are then OUTSIDE. */
  readonly wrong?: WrongView
}
export const MASKED = -1
export const OUTSIDE = -2

/** Describes the access that an agent makes when it executes a node. */
export function accessOf(agent: Agent, node: Node): Accessor {
  return { identity: agent, clock: agent.clock, time: agent.time, kernel: agent.launch.kernel, node }
}

export function partyOf(by: Accessor, what: string): Party {
  return { who: describe(by.identity), what, site: by.node?.site }
}

/**
 * The error that ends the run because the kernel used a view that exceeds its bounds. The error for a view that exceeds
 * its bounds names the line of the use only if the use and the view are on different lines.
 */
export function misuse(by: Accessor, { node, message }: WrongView): StopRun {
  const lineOf = (one: Node | undefined): number | undefined => one?.site?.position?.line
  const made = { who: describe(by.identity), what: 'creates this view', site: node.site }
  const used = lineOf(by.node) === lineOf(node) ? [] : [partyOf(by, 'uses it')]
  return new StopRun({ kind: 'out-of-bounds', kernel: by.kernel, message, parties: [made, ...used] })
}

export class Memory {
  readonly #report: (finding: Finding) => void
  readonly #identify: (component: number) => ComponentRecord

  constructor(report: (finding: Finding) => void, identify: (component: number) => ComponentRecord) {
    this.#report = report
    this.#identify = identify
  }

  read(by: Accessor, buffer: Buffer, i: number): number {
    if (buffer.readQuickly(i, by)) return buffer.data[i]
    if (!buffer.isWritten(i)) {
      const place = buffer.describe(i)
      this.say('uninitialised', by, `${place} is read, but was never written`, [
        partyOf(by, `reads ${place}`),
      ])
      return NaN
    }
    this.checkWeak(by, buffer, i, false)
    const location = buffer.locations.get(i)
    if (location) this.#checkMixed(by, buffer, i, location, false)
    buffer.noteRead(i, by)
    return buffer.data[i]
  }

  write(by: Accessor, buffer: Buffer, i: number, value: number): void {
    this.checkWeak(by, buffer, i, true)
    const location = buffer.locations.size > 0 ? buffer.locations.get(i) : undefined
    if (location) {
      this.#checkMixed(by, buffer, i, location, true)
      buffer.locations.delete(i)
    }
    buffer.noteWrite(i, by)
    buffer.data[i] = value
    // The history of the memory location restarts at a weak write, but the set of components that use the location is
    // kept.
    if (location) historyOf(buffer, i).inheritUse(location, by.identity.component)
  }

  /**
   * Reports a race if a weak access by another agent or asynchronous copy conflicts with this access and is not ordered
   * before this access.
   */
  checkWeak(by: Accessor, buffer: Buffer, i: number, writes: boolean): void {
    const conflict = buffer.conflictingWrite(i, by) ?? (writes ? buffer.conflictingRead(i, by) : undefined)
    if (conflict) this.#race(by, buffer, i, conflict, writes)
  }

  outside(by: Accessor, { buffer, wrong }: Places, verb: 'reads' | 'writes'): void {
    if (wrong) throw misuse(by, wrong)
    const extents = buffer.shape.join(' x ') || 'one element'
    const where = `${buffer.name}${buffer.rank >= 0 ? ` of rank ${buffer.rank}` : ''}`
    this.say('out-of-bounds', by, `an access is outside ${buffer.name} (${extents})`, [
      partyOf(by, `${verb} outside ${where}`),
    ])
  }

  say(kind: FindingKind, by: Accessor, message: string, parties: readonly Party[]): void {
    this.#report({ kind, kernel: by.kernel, message, parties })
  }

  #race(by: Accessor, buffer: Buffer, i: number, { earlier }: Conflict, writes: boolean): void {
    const place = buffer.describe(i)
    const other: Party = {
      who: describe(this.#identify(earlier.component)),
      what: `${earlier.writes ? 'writes' : 'reads'} ${place}`,
      site: earlier.node?.site,
    }
    this.say('race', by, `two accesses of ${place} are not ordered, and one of them writes`, [
      other,
      partyOf(by, `${writes ? 'writes' : 'reads'} ${place}`),
    ])
  }

  /** Reports a race between a weak access and strong accesses (atomics or flags) of the same element. */
  #checkMixed(by: Accessor, buffer: Buffer, i: number, location: Location, writes: boolean): void {
    for (const message of location.messages)
      for (const one of message.touches) {
        const { component } = one.by
        if (
          component === by.identity.component ||
          !(writes || one.writes) ||
          by.clock.get(component) >= one.last
        )
          continue
        this.#race(by, buffer, i, { earlier: { component, node: one.node, writes: one.writes } }, writes)
        return
      }
  }
}
