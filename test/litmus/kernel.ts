/** Converts a litmus program into a kernel and a scenario that the checker explores. */
import { i32, kernel, tensor, type Program } from '../../src/index.ts'
import { scenario, type Scenario } from '../../src/world/world.ts'
import { outcomeKey, type LitmusAgent, type LitmusProgram, type Op } from './program.ts'

export interface LitmusRun {
  readonly scenario: Scenario
  readonly ranks: number
}

const registersOf = (agent: LitmusAgent): number =>
  agent.code.filter((op) => op.kind === 'load' || op.kind === 'rmw').length

export function litmusScenario(program: LitmusProgram): LitmusRun {
  const { agents, locations } = program
  const ranks = Math.max(...agents.map((agent) => agent.rank)) + 1
  const programs = Math.max(...agents.map((agent) => agent.program)) + 1
  const width = Math.max(1, ...agents.map(registersOf))

  const litmus = kernel(
    'litmus',
    { cells: tensor(i32, 1), out: tensor(i32, 2) },
    (t: Program, { cells, out }) => {
      const execute = (agent: LitmusAgent): void => {
        let register = 0
        for (const op of agent.code) {
          const value = step(op)
          if (value) t.store(out.at([agents.indexOf(agent), register++]), value)
        }
      }
      const step = (op: Op) => {
        if (op.kind === 'fence') return void t.fence(op.order, op.scope)
        const place = cells.on(0).at([locations.indexOf(op.loc)])
        if (op.kind === 'rmw') {
          const access = { order: op.order, scope: op.scope }
          if (op.op === 'cas') return t.atomic.cas(place, op.expected!, op.value, access)
          return op.op === 'add'
            ? t.atomic.add(place, op.value, access)
            : t.atomic.xchg(place, op.value, access)
        }
        const access = op.order === 'weak' ? {} : { order: op.order, scope: op.scope }
        if (op.kind === 'load') return t.load(place, access)
        return void t.store(place, op.value, access)
      }
      const places = new Map<string, LitmusAgent[]>()
      for (const agent of agents) {
        const key = `${agent.rank}/${agent.program}`
        places.set(key, [...(places.get(key) ?? []), agent])
      }
      for (const together of places.values()) {
        const [{ rank, program: number }] = together
        t.if(t.rank.eq(rank).and(t.program.eq(number)), () => {
          if (together.length === 1) execute(together[0])
          else t.roles(Object.fromEntries(together.map((agent) => [agent.role, () => execute(agent)])))
        })
      }
    },
  )

  const run = scenario(program.name, { ranks }, async (world) => {
    const cells = world.zeros(i32, [locations.length], { name: 'cells' })
    const out = world.empty(i32, [agents.length, width], { name: 'out' })
    world.launch(litmus, { cells, out }, { grid: programs })
    const finals = await world.read(cells, 0)
    const registers: number[][] = []
    for (const [i, agent] of agents.entries()) {
      const mine = await world.read(out, agent.rank)
      registers.push([...mine.subarray(i * width, i * width + registersOf(agent))])
    }
    return outcomeKey(registers, [...finals])
  })
  return { scenario: run, ranks }
}
