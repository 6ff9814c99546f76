/**
 * The host and a running kernel exchange messages: the host signals a flag, and then polls a word that the kernel
 * stores.
 */
import { flags, i32, kernel, tensor } from '../../../src/index.ts'
import { expectClose, scenario } from '../../../src/world/world.ts'
import { original, type Mutants } from '../suite.ts'

const file = import.meta.url

const answerMutants = {
  'signals-before-writing': { kind: 'race', lines: ['host', 'work'] },
  'reads-without-polling': { kind: 'race', lines: ['host', 'work'] },
  'never-signals': { kind: 'deadlock', lines: ['await'], says: ['only the host signals go'] },
  'does-not-wait': { kind: 'race', lines: ['host', 'work'] },
  'waits-relaxed': { kind: 'race', lines: ['host', 'work'] },
  'answers-before-storing': { kind: 'race', lines: ['host', 'work'] },
  'answers-by-a-weak-store': { kind: 'race', lines: ['answer', 'host'] },
  'answers-at-device-scope': { kind: 'scope-race', lines: ['answer', 'host'] },
} satisfies Mutants
type AnswerMutation = keyof typeof answerMutants

const answerKernel = (mutation?: AnswerMutation) =>
  kernel(
    'answer',
    { x: tensor(i32, 1), y: tensor(i32, 1), done: tensor(i32, 1), go: flags() },
    (t, { x, y, done, go }) => {
      if (mutation !== 'does-not-wait') t.wait(go, mutation === 'waits-relaxed' ? { order: 'relaxed' } : {}) // @line await
      const isEarly = mutation === 'answers-before-storing'
      const scope = mutation === 'answers-at-device-scope' ? 'device' : 'system'
      const how = mutation === 'answers-by-a-weak-store' ? {} : ({ order: 'release', scope } as const)
      const reply = () => t.store(done.at([0]), 1, how) // @line answer
      if (isEarly) reply()
      t.store(y.at([0]), t.load(x.at([8])).mul(2)) // @line work
      if (!isEarly) reply()
    },
  )

const hostAnswers = original<AnswerMutation>({
  name: 'hostSignals',
  file,
  ranks: 1,
  mutants: answerMutants,
  scenario(mutation) {
    const answer = answerKernel(mutation)
    return scenario('hostSignals', { ranks: 1 }, async (world) => {
      const x = world.zeros(i32, [9], { name: 'x' })
      const [y, done] = [world.zeros(i32, [1], { name: 'y' }), world.zeros(i32, [1], { name: 'done' })]
      const go = world.flags([], { name: 'go', signaller: 'host' })
      world.launch(answer, { x, y, done, go }, { grid: 1 })
      const write = (): void => world.write(x, 0, [0, 0, 0, 0, 0, 0, 0, 0, 21])
      if (mutation !== 'signals-before-writing') write()
      if (mutation !== 'never-signals') world.signal(go, 0)
      if (mutation === 'signals-before-writing') write()
      if (mutation !== 'reads-without-polling') while ((await world.peek(done, 0))[0] !== 1);
      expectClose(await world.peek(y, 0), [42])
      await world.synchronize()
    })
  },
})

export const hostSignals = [hostAnswers]
