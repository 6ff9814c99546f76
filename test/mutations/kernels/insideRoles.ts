/** Teams and a pipeline inside roles: one role sends, with other work in each team, and another adds what has arrived. */
import { f32, flags, kernel, tensor, type Fragment, type Scalar } from '../../../src/index.ts'
import { expectClose, scenario } from '../../../src/world/world.ts'
import { original, type Mutants } from '../suite.ts'

const file = import.meta.url
const PROGRAMS = 2

const teamsMutants = {
  'waits-in-the-other-role': {
    kind: 'uninitialised',
    lines: ['fetch'],
    says: ['program 0, adds'],
    also: [{ kind: 'race', lines: ['fetch', 'send'] }],
  },
  'both-teams-signal-one-flag': {
    kind: 'race',
    lines: ['fetch', 'send'],
    says: ['first, sends writes'],
    also: [
      { kind: 'uninitialised', lines: ['fetch'] },
      { kind: 'deadlock', lines: ['await', 'await'] },
    ],
  },
  'signals-before-sending': {
    kind: 'race',
    lines: ['fetch', 'send'],
    also: [{ kind: 'uninitialised', lines: ['fetch'] }],
  },
  // One of the two teams that signal has no programs.
  'one-team-is-empty': {
    kind: 'race',
    lines: ['fetch', 'send'],
    also: [
      { kind: 'race', lines: ['send', 'send'] },
      { kind: 'deadlock', lines: ['await', 'await'] },
    ],
  },
  'waits-for-the-first-part-only': {
    kind: 'race',
    lines: ['fetch', 'send'],
    says: ['others, sends writes inbox[1]'],
    also: [{ kind: 'uninitialised', lines: ['fetch'] }],
  },
  'never-returns-the-inbox': {
    kind: 'deadlock',
    lines: ['await', 'await', 'await-inbox', 'await-inbox', 'await-inbox', 'await-inbox'],
    says: ['first, sends waits for flag taken'],
    lowered: {
      kind: 'deadlock',
      lines: [
        ...['await', 'await', 'await-inbox', 'await-inbox', 'await-inbox', 'await-inbox'],
        ...['pipeline', 'pipeline'],
      ],
    },
  },
} satisfies Mutants
type TeamsMutation = keyof typeof teamsMutants

const teamsKernel = (mutation?: TeamsMutation) =>
  kernel(
    'sendInTeams',
    { x: tensor(f32, 1), inbox: tensor(f32, 1), out: tensor(f32, 1), sent: flags(1), taken: flags() },
    (t, { x, inbox, out, sent, taken }) => {
      const peer = t.rank.add(1).mod(t.world)
      const tile = t.shared(f32, [1])
      const isElsewhere = mutation === 'waits-in-the-other-role'
      const send = (part: number) => () => {
        t.wait(taken, { lag: 1 }) // @line await-inbox
        const flag = sent.on(peer).at([mutation === 'both-teams-signal-one-flag' ? 0 : part])
        const isEarly = mutation === 'signals-before-sending'
        if (isEarly) t.signal(flag)
        t.persistent([1], () => t.store(inbox.on(peer).at([part]), t.load(x.at([part])))) // @line send
        if (!isEarly) t.signal(flag)
        if (isElsewhere) t.wait(sent.at([part]))
      }
      const programs = mutation === 'one-team-is-empty' ? PROGRAMS : 1
      t.roles({
        sends: () =>
          t.teams({
            first: { programs, body: send(0) },
            others: { programs: 'rest', body: send(1) },
          }),
        adds: () =>
          t.if(t.program.eq(0), () => {
            const add = ([k]: readonly Scalar[], sum: Fragment<'f32', 1>) => {
              const part = mutation === 'waits-for-the-first-part-only' ? 0 : k
              if (!isElsewhere) t.wait(sent.at([part])) // @line await
              t.copy(inbox.tile([k], [1]), tile) // @line fetch
              return sum.add(t.load(tile))
            }
            const sum = t.pipeline([2], t.zeros(f32, [1]), add) // @line pipeline
            t.store(out.tile([0], [1]), sum)
            if (mutation !== 'never-returns-the-inbox') t.signal(taken.on(peer))
          }),
      })
    },
  )

const teamsInRoles = original<TeamsMutation>({
  name: 'teamsInRoles',
  file,
  ranks: 2,
  mutants: teamsMutants,
  scenario(mutation) {
    const send = teamsKernel(mutation)
    return scenario('teamsInRoles', { ranks: 2 }, async (world) => {
      const x = world.from(f32, [2], (rank) => [10 * rank + 1, 10 * rank + 2], { name: 'x' })
      const inbox = world.empty(f32, [2], { name: 'inbox' })
      const out = world.empty(f32, [1], { name: 'out' })
      const sent = world.flags([2], { name: 'sent' })
      const taken = world.flags([], { name: 'taken' })
      for (let launch = 0; launch < 2; launch++)
        world.launch(send, { x, inbox, out, sent, taken }, { grid: PROGRAMS })
      for (const rank of [0, 1]) expectClose(await world.read(out, rank), [20 * (1 - rank) + 3])
    })
  },
})

export const insideRoles = [teamsInRoles]
