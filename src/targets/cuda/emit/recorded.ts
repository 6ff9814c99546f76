/** How the kernel of a world that records differs from the one that is launched otherwise, besides that it writes a log. */
import { walk, type KernelIR, type Node } from '../../../ir/node.ts'
import { atStage, LAST_STAGE } from '../facts.ts'
import { decide } from './decide.ts'
import type { EmitFacts } from './recipe.ts'

/** In words, each a whole sentence without its end; none: it is the same program. */
export function unlikeUnrecorded(recorded: KernelIR, facts: EmitFacts): readonly string[] {
  const usual = { ...facts, record: false, words: true }
  const [here, there] = [facts, usual].map((one) => atStage(recorded, LAST_STAGE, one))
  const count = ({ body }: KernelIR, isCounted: (node: Node) => boolean): number =>
    [...walk(body)].filter(isCounted).length
  const isFewer = (isCounted: (node: Node) => boolean): boolean =>
    count(here, isCounted) < count(there, isCounted)
  const { name } = recorded
  return [
    ...(isFewer(({ op }) => op === 'words.take')
      ? [`${name} waits for flags where it waits for the words themselves when nothing is recorded`]
      : []),
    ...(isFewer(({ attributes }) => attributes.apart === true)
      ? [
          `${name} waits for one flag after the other where its threads wait for all at once when nothing is recorded`,
        ]
      : []),
    ...(decide(there, usual).early
      ? [
          `${name} copies nothing before the kernel ahead of it has ended, which it may when nothing is recorded`,
        ]
      : []),
  ]
}
