/** Describes what the programs of an aborted world were doing, from the control blocks of the launches in flight. */
import { attribute, walk, type Node } from '../../ir/node.ts'
import { awaitsBarrier, awaitsFlag, isOpenEnded, origin } from '../../ir/ops/index.ts'
import { pendingOf, type FlagSignals, type Launched, type Signallers } from '../../world/signallers.ts'
import { doing } from '../../world/stops.ts'
import type { StoppedWorker, SymmetricFlags } from '../../world/world.ts'
import { NO_FLAG, recordsOf, type Failure, type WaitRecord } from './control.ts'
import type { Part, Step } from './queue.ts'

/**
 * The states of the programs of an aborted world, and the kernels that could signal the flags for which these programs
 * waited.
 */
export interface Doings {
  readonly workers: readonly StoppedWorker[]
  readonly signals: readonly FlagSignals[]
}

/**
 * Reports, for each stream of each rank, the first launch whose programs recorded a wait. Launches behind a waiting
 * launch started only after the abort. For a stream without a wait record, the function reports the first launch of the
 * stream.
 */
export function doingsOf(underWay: readonly Step[], signallers: Signallers): Doings {
  const streams = new Map<string, Step[]>()
  for (const step of underWay) {
    const { rank, number } = step.part.queue
    const steps = streams.get(`${rank} ${number}`)
    if (steps) steps.push(step)
    else streams.set(`${rank} ${number}`, [step])
  }
  const [waiting, computing]: [StoppedWorker[], StoppedWorker[]] = [[], []]
  const awaited = new Set<SymmetricFlags>()
  const pending: Launched[] = []
  for (const steps of streams.values()) {
    const at = steps.findIndex((step) => recordsIn(step).length > 0)
    // All launches before a launch that waits have ended, because the launches of a stream run in order.
    pending.push(...steps.slice(Math.max(at, 0)).map(({ part }) => placeOf(part)))
    if (at >= 0)
      for (const record of recordsIn(steps[at])) waiting.push(describe(steps[at].part, record, awaited))
    else computing.push(silent(steps))
  }
  const known = pendingOf(pending, waiting)
  return {
    workers: [...waiting, ...computing],
    signals: [...awaited].map((flags) => signallers.couldSignal(flags, known)),
  }
}

const recordsIn = ({ part, control }: Step): readonly WaitRecord[] =>
  control && part.executable.emitted.waitSites.length > 0 ? recordsOf(control, part.grid) : []

const placeOf = ({ queue, kernel, members }: Part): Launched & Pick<StoppedWorker, 'members'> => ({
  rank: queue.rank,
  ...(members && { members }),
  stream: queue.number,
  kernel: kernel.name,
})

function describe(
  part: Part,
  { program, site, owner, value, wanted }: WaitRecord,
  awaited: Set<SymmetricFlags>,
): StoppedWorker {
  const line = part.executable.emitted.waitSites[site - 1]
  const own =
    owner === NO_FLAG && nodeAt(part, line, (node) => isOpenEnded(node) || awaitsBarrier(node) !== undefined)
  if (own)
    return {
      ...placeOf(part),
      program,
      site: own.site?.toString() ?? line,
      ...(isOpenEnded(own) ? doing.loop : doing.barrier),
    }
  const node = nodeAt(part, line, awaitsFlag)
  const flags = node && part.flags[attribute<string>(origin(node.inputs[0]).base, 'name')]
  if (flags) awaited.add(flags)
  // The wait record does not contain the index of the flag in its flag set.
  const name = flags ? `${flags.name}${flags.shape.length > 0 ? '[…]' : ''}` : 'a flag'
  return {
    ...placeOf(part),
    program,
    site: node?.site?.toString() ?? line,
    ...doing.waitForFlag({ name, rank: owner, value, wanted }, part.members),
  }
}

/** Returns the first IR node that belongs to the given source line and satisfies a condition. */
const nodeAt = ({ executable }: Part, line: string, isWanted: (node: Node) => boolean): Node | undefined =>
  [...walk(executable.ir.body)].find((node) => isWanted(node) && node.site?.line === line)

/** Describes the program in which an assertion failed. */
export function failedProgram({ part }: Step, { program, assertion }: Failure): StoppedWorker {
  const { site, message } = part.executable.emitted.assertions![assertion - 1]
  return { ...placeOf(part), program, site, what: `fails the assertion: ${message}` }
}

function silent(steps: readonly Step[]): StoppedWorker {
  const [{ part }] = steps
  const alone = steps.every((step) => step.part.kernel === part.kernel)
  const { waiting } = part.executable
  return {
    ...placeOf(part),
    program: 0,
    site: alone ? waiting?.site?.toString() : undefined,
    what: alone ? doing.computing.what : `or a kernel launched after it ${doing.computing.what}`,
  }
}
