/** Runs an example's scenario if its file was started directly, and prints the lines that the scenario returns. */
import { realpathSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { openWorld, type Scenario } from 'arke'

export async function show(url: string, scenario: Scenario): Promise<void> {
  const started = process.argv[1]
  if (!started || realpathSync(started) !== fileURLToPath(url)) return
  for (const ranks of scenario.ranks) {
    const world = await openWorld({ ranks })
    const lines = (await scenario.run(world)) as string[]
    await world.close()
    console.log([`${scenario.name}, ${ranks} ranks:`, ...lines].join('\n  '))
  }
}
