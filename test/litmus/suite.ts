/**
 * The litmus family: the textbook shapes, each combined with ways to order its accesses, placements of its agents,
 * and scopes of its operations.
 *
 * A program's name is `shape+variant+layout`, for instance `MP+relAcq+ranks.system`.
 */
import { cross, crossVariants, variants, weakDataVariant, type LitmusCase } from './cross.ts'
import { awaitShapes, lbShape, shapes } from './shapes.ts'
import { specials } from './specials.ts'

const crossed = new Set(['MP', 'S', 'WRC', 'ISA2', 'MP-add'])
const weakened = new Set(['MP', 'S', 'WRC', 'ISA2', 'MP-add', 'MP-cas'])

function distinct(cases: readonly LitmusCase[]): LitmusCase[] {
  const seen = new Map<string, LitmusCase>()
  for (const item of cases) {
    const text = JSON.stringify([item.program.agents, item.program.locations])
    if (!seen.has(text)) seen.set(text, item)
  }
  return [...seen.values()]
}

/** All litmus programs except load buffering and spin loops. The names of litmus tests are unique. */
export const litmusSuite: readonly LitmusCase[] = distinct([
  ...shapes.flatMap((shape) => [
    ...cross(shape, variants),
    ...(crossed.has(shape.name) ? cross(shape, crossVariants) : []),
    ...(weakened.has(shape.name) ? cross(shape, variants.map(weakDataVariant)) : []),
  ]),
  ...specials,
])

/**
 * Programs whose loads or RMWs have `await`, all with weak data. Because the agents wait, these programs can be free of
 * races. An enumerator that does not support spin loops may skip the programs with `await`.
 */
export const awaitSuite: readonly LitmusCase[] = distinct(
  awaitShapes.flatMap((shape) => cross(shape, variants.map(weakDataVariant))),
)

/**
 * Load buffering: two agents each load a value and then store to the element that the other loads. The outcome in which
 * both loads read 1 needs a cycle of program order and reads-from. The model excludes this cycle for every order and
 * scope, although hardware and the PTX axioms may allow it for relaxed and weak accesses. An implementation that never
 * delays a load cannot show the outcome of load buffering either. The programs of load buffering are therefore not part
 * of the suite, but listed separately.
 */
export const loadBuffering: readonly LitmusCase[] = distinct(cross(lbShape, variants))

/** The register values of the outcome that the model excludes in load buffering. */
export const loadBufferingExcluded = 'a0.r0=1 a1.r0=1'
