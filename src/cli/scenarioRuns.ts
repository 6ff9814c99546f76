/**
 * Chooses the scenarios of a file for `arke run` and `arke tune`, and runs a scenario on a world that records events.
 */
import { borrowed } from '../world/borrowed.ts'
import type { Chosen, Scenario, World } from '../world/world.ts'
import { describeError, UsageError } from './errors.ts'
import type { Source } from './load.ts'
import { turn, unlessIdle, type Strays } from './strays.ts'

/** The scenarios to run, each with a world size. */
export function plan(
  { file, scenarios, operations }: Source,
  { scenario: name, ranks }: { readonly scenario?: string; readonly ranks?: number },
): readonly { readonly scenario: Scenario; readonly ranks: number }[] {
  if (scenarios.length === 0)
    throw new UsageError(
      operations.length > 0
        ? `${file}: exports operations and no scenario; measure them with arke bench ${file}, or export what scenariosOf(…) returns`
        : `${file}: exports no scenario; export what scenario(…) returns`,
    )
  const wanted = scenarios.filter((one) => name === undefined || one.name === name)
  if (wanted.length === 0)
    throw new UsageError(
      `--scenario ${JSON.stringify(name)}: there is no such scenario; there is ${scenarios.map((one) => JSON.stringify(one.name)).join(', ')}`,
    )
  return wanted.flatMap((scenario) =>
    (ranks === undefined ? scenario.ranks : [ranks]).map((size) => ({ scenario, ranks: size })),
  )
}

/** Runs a scenario once and waits for the world. Throws any error of the scenario, including an uncaught one. */
export async function runOnce(
  world: World,
  scenario: Scenario,
  strays: Strays<Scenario>,
  chosen?: Chosen,
): Promise<void> {
  const { world: lent, giveBack } = borrowed(world)
  await strays.within(scenario, () => unlessIdle(async () => scenario.run(lent, chosen)))
  await world.synchronize()
  await turn()
  const stray = strays.take(scenario)
  if (stray) throw stray
  giveBack()
}

/** Closes the world. An error that a failed or interrupted world throws when it is closed is ignored. */
export async function closed(world: World, interrupt: AbortSignal | undefined): Promise<void> {
  try {
    await world.close()
  } catch {
    interrupt?.throwIfAborted()
  }
}

/** The error of a scenario in one sentence that begins with the author's line. */
export function problemOf(error: unknown, { site }: Scenario): string {
  const said = describeError(error)
  return /^\S+:\d+:\d+: /.test(said) || !site ? said : `${site}: ${said}`
}
