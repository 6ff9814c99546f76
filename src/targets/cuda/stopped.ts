/** Describes what the programs of an aborted world were doing, from the control blocks of the launches in flight. */
import { attribute, walk, type Node } from '../../ir/node.ts'
import { origin } from '../../ir/ops/index.ts'
import { doing } from '../../world/stops.ts'
import type { StoppedWorker } from '../../world/world.ts'
import { NO_FLAG, recordsOf, type WaitRecord } from './control.ts'
import { lineOf } from './emit/writer.ts'
import type { Part, Step } from './queue.ts'

/**
 * Reports, for each stream of each rank, the first launch whose programs recorded a wait. Later launches started after
 * the abort. For a stream without such a record, reports its first launch.
 */
export function stoppedWorkers(underWay: readonly Step[]): StoppedWorker[] {
  const streams = new Map<string, Step[]>()
  for (const step of underWay) {
    const { rank, number } = step.part.queue
    const steps = streams.get(`${rank} ${number}`)
    if (steps) steps.push(step)
    else streams.set(`${rank} ${number}`, [step])
  }
  const [waiting, computing]: [StoppedWorker[], StoppedWorker[]] = [[], []]
  for (const steps of streams.values()) {
    const told = steps.find((step) => recordsIn(step).length > 0)
    if (told) for (const record of recordsIn(told)) waiting.push(describe(told.part, record))
    else computing.push(silent(steps))
  }
  return [...waiting, ...computing]
}

const recordsIn = ({ part, control }: Step): readonly WaitRecord[] =>
  control && part.executable.emitted.waitSites.length > 0 ? recordsOf(control, part.grid) : []

const placeOf = ({ queue, kernel }: Part): Pick<StoppedWorker, 'rank' | 'stream' | 'kernel'> => ({
  rank: queue.rank,
  stream: queue.number,
  kernel: kernel.name,
})

function describe(part: Part, { program, site, owner, value, wanted }: WaitRecord): StoppedWorker {
  const line = part.executable.emitted.waitSites[site - 1]
  const own = owner === NO_FLAG && nodeAt(part, line, ['while', 'barrier.wait'])
  if (own)
    return {
      ...placeOf(part),
      program,
      site: own.site?.toString() ?? line,
      ...(own.op === 'while' ? doing.loop : doing.barrier),
    }
  const node = nodeAt(part, line, ['wait'])
  const name = node ? flagName(part, node) : 'a flag'
  return {
    ...placeOf(part),
    program,
    site: node?.site?.toString() ?? line,
    ...doing.waitForFlag({ name, rank: owner, value, wanted }),
  }
}

/** The first node on the author's line whose op is in `ops`. */
const nodeAt = ({ executable }: Part, line: string, ops: readonly Node['op'][]): Node | undefined =>
  [...walk(executable.ir.body)].find((node) => ops.includes(node.op) && lineOf(node.site) === line)

/** The name of the flag set. The record does not contain the index of the flag in the set. */
function flagName({ flags }: Part, wait: Node): string {
  const { base } = origin(wait.inputs[0])
  const handle = flags[attribute<string>(base, 'name')]
  return handle.shape.length > 0 ? `${handle.name}[…]` : handle.name
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
