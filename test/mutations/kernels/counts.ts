/**
 * Tests waits for a number of signals: a root and its workers exchange numbers in rounds, with one counting flag in
 * each direction.
 */
import { f32, flags, i32, kernel, scalar, tensor } from '../../../src/index.ts'
import { expectClose, scenario } from '../../../src/world/world.ts'
import { original, variant, type Mutants } from '../suite.ts'

const file = import.meta.url
const ROUNDS = 3
const RANKS = 3
const WORKERS = RANKS - 1

// In each round every worker sends a number to the root, the root answers with the sum, and the workers continue with it.

const roundsMutants = {
  'counts-one-too-few': {
    kind: 'race',
    lines: ['send', 'add'],
    also: [{ kind: 'uninitialised', lines: ['add'] }],
  },
  'counts-one-too-many': {
    kind: 'deadlock',
    lines: ['await-workers', 'await-root', 'await-root'],
    says: ['rank 0, program 0 waits for flag sent of rank 0: it is 2, wanted 3 (3 of the 6 signals'],
  },
  'counts-from-the-first-round-only': {
    kind: 'uninitialised',
    lines: ['add'],
    also: [{ kind: 'race', lines: ['send', 'add'] }],
  },
  'a-worker-misses-a-round': {
    kind: 'deadlock',
    lines: ['await-workers', 'await-root', 'await-root'],
    says: ['waits for flag sent of rank 0: it is 3, wanted 4 (4 of the 6 signals'],
  },
  'relaxed-signal': { kind: 'race', lines: ['send', 'add'] },
  'relaxed-wait': { kind: 'race', lines: ['answer', 'read-answer'] },
  'worker-runs-ahead': {
    kind: 'uninitialised',
    lines: ['read-answer'],
    also: [
      { kind: 'race', lines: ['answer', 'read-answer'] },
      { kind: 'race', lines: ['send', 'add'] },
      { kind: 'uninitialised', lines: ['add'] },
    ],
  },
} satisfies Mutants
type RoundsMutation = keyof typeof roundsMutants

const roundsKernel = (mutation?: RoundsMutation) =>
  kernel(
    'rounds',
    {
      inbox: tensor(f32, 3),
      answers: tensor(f32, 2),
      out: tensor(f32, 1),
      sent: flags(0, { arrivals: ROUNDS * WORKERS }),
      go: flags(0, { arrivals: ROUNDS }),
      step: scalar(i32),
    },
    (t, { inbox, answers, out, sent, go, step }) => {
      const wrong = variant<RoundsMutation, number>(
        mutation,
        { 'counts-one-too-few': -1, 'counts-one-too-many': 1 },
        0,
      )
      const box = inbox.on(0).pick(step)
      t.if(
        t.rank.eq(0),
        () =>
          t.for(ROUNDS, (k) => {
            const rounds = mutation === 'counts-from-the-first-round-only' ? t.constant(i32, 1) : k.add(1)
            t.wait(sent, { atLeast: rounds.mul(WORKERS).add(wrong) }) // @line await-workers
            const sum = t.for(WORKERS, t.constant(f32, 0), (w, all) => all.add(t.load(box.at([k, w])))) // @line add
            t.for(WORKERS, (w) => {
              t.store(answers.on(w.add(1)).at([step, k]), sum) // @line answer
              t.signal(go.on(w.add(1)))
            })
          }),
        () => {
          const last = t.for(ROUNDS, t.rank.to(f32), (k, x) => {
            t.store(box.at([k, t.rank.sub(1)]), x) // @line send
            const signal = () =>
              t.signal(sent.on(0), mutation === 'relaxed-signal' ? { order: 'relaxed' } : {})
            if (mutation === 'a-worker-misses-a-round') t.if(k.add(t.rank).ne(ROUNDS), signal)
            else signal()
            if (mutation !== 'worker-runs-ahead')
              t.wait(go, { atLeast: k.add(1), ...(mutation === 'relaxed-wait' && { order: 'relaxed' }) }) // @line await-root
            return t.load(answers.at([step, k])).add(t.rank.to(f32)) // @line read-answer
          })
          t.store(out.at([step]), last)
        },
      )
    },
  )

/** The result of a worker, whose number becomes in each round the sum of both numbers plus its rank. */
function expected(rank: number): number {
  let values = [1, 2]
  for (let k = 0; k < ROUNDS; k++) {
    const sum = values[0] + values[1]
    values = [sum + 1, sum + 2]
  }
  return values[rank - 1]
}

const rounds = original<RoundsMutation>({
  name: 'rounds',
  file,
  ranks: RANKS,
  mutants: roundsMutants,
  scenario(mutation) {
    const exchange = roundsKernel(mutation)
    return scenario('rounds', { ranks: RANKS }, async (world) => {
      const inbox = world.empty(f32, [2, ROUNDS, WORKERS], { name: 'inbox' })
      const answers = world.empty(f32, [2, ROUNDS], { name: 'answers' })
      const out = world.zeros(f32, [2], { name: 'out' })
      const sent = world.flags([], { name: 'sent', arrivals: ROUNDS * WORKERS })
      const go = world.flags([], { name: 'go', arrivals: ROUNDS })
      for (const step of [0, 1]) world.launch(exchange, { inbox, answers, out, sent, go, step }, { grid: 1 })
      for (let rank = 1; rank < RANKS; rank++)
        expectClose(await world.read(out, rank), [expected(rank), expected(rank)])
    })
  },
})

// Every worker sends a number to the root, which polls once and adds the numbers if both have arrived.

const pollMutants = {
  'polls-for-one-too-few': {
    kind: 'race',
    lines: ['post', 'collect'],
    also: [{ kind: 'uninitialised', lines: ['collect'] }],
  },
  'polls-relaxed': { kind: 'race', lines: ['post', 'collect'] },
} satisfies Mutants
type PollMutation = keyof typeof pollMutants

const pollKernel = (mutation?: PollMutation) =>
  kernel(
    'poll',
    { inbox: tensor(f32, 1), out: tensor(f32, 1), sent: flags(0, { arrivals: WORKERS }) },
    (t, { inbox, out, sent }) => {
      t.if(t.rank.ne(0), () => {
        t.store(inbox.on(0).at([t.rank.sub(1)]), t.rank.to(f32)) // @line post
        t.signal(sent.on(0))
      })
      const atLeast = mutation === 'polls-for-one-too-few' ? WORKERS - 1 : WORKERS
      const options = { atLeast, ...(mutation === 'polls-relaxed' && { order: 'relaxed' as const }) }
      const sum = t.if(
        t.rank.eq(0).and(t.reached(sent, options)),
        () => t.for(WORKERS, t.constant(f32, 0), (w, all) => all.add(t.load(inbox.at([w])))), // @line collect
        () => t.constant(f32, 3),
      )
      t.store(out.at([0]), sum)
      t.if(t.rank.eq(0), () => t.wait(sent))
    },
  )

const poll = original<PollMutation>({
  name: 'poll',
  file,
  ranks: RANKS,
  mutants: pollMutants,
  scenario(mutation) {
    const polling = pollKernel(mutation)
    return scenario('poll', { ranks: RANKS }, async (world) => {
      const inbox = world.empty(f32, [WORKERS], { name: 'inbox' })
      const out = world.empty(f32, [1], { name: 'out' })
      const sent = world.flags([], { name: 'sent', arrivals: WORKERS })
      world.launch(polling, { inbox, out, sent }, { grid: 1 })
      expectClose(await world.read(out, 0), [3])
    })
  },
})

export const counts = [rounds, poll]
