/** Assertions and prints: a rank checks and prints a number that it received. */
import { f32, flags, kernel, tensor } from '../../../src/index.ts'
import { expectClose, scenario } from '../../../src/world/world.ts'
import { original, type Mutants } from '../suite.ts'

const file = import.meta.url

const receiveMutants = {
  'sends-zero': { kind: 'assertion', lines: ['assert'], says: ['the number is positive'] },
  'asserts-too-much': { kind: 'assertion', lines: ['assert'], says: ['rank 1, program 0 fails'] },
  'relaxed-signal': { kind: 'race', lines: ['receive', 'send'] },
  'prints-before-waiting': {
    kind: 'uninitialised',
    lines: ['print'],
    also: [{ kind: 'race', lines: ['print', 'send'] }],
  },
  'asserts-before-waiting': {
    kind: 'uninitialised',
    lines: ['early-assert'],
    also: [{ kind: 'race', lines: ['early-assert', 'send'] }],
  },
} satisfies Mutants
type ReceiveMutation = keyof typeof receiveMutants

const receiveKernel = (mutation?: ReceiveMutation) =>
  kernel(
    'receive',
    { inbox: tensor(f32, 1), out: tensor(f32, 1), sent: flags() },
    (t, { inbox, out, sent }) => {
      const peer = t.rank.add(1).mod(t.world)
      const value = t.rank.add(mutation === 'sends-zero' ? 0 : 1).to(f32)
      t.store(inbox.on(peer).at([0]), value) // @line send
      t.signal(sent.on(peer), mutation === 'relaxed-signal' ? { order: 'relaxed' } : {})
      const isEarly = mutation === 'prints-before-waiting'
      const show = () => t.print('received', t.load(inbox.at([0])), t.rank) // @line print
      if (isEarly) show()
      if (mutation === 'asserts-before-waiting') t.assert(t.load(inbox.at([0])).gt(0), 'the number is there') // @line early-assert
      t.wait(sent)
      const received = t.load(inbox.at([0])) // @line receive
      t.assert(received.gt(mutation === 'asserts-too-much' ? 1 : 0), 'the number is positive') // @line assert
      if (!isEarly) show()
      t.store(out.at([0]), received)
    },
  )

const receive = original<ReceiveMutation>({
  name: 'receiveAndAssert',
  file,
  ranks: 2,
  mutants: receiveMutants,
  scenario(mutation) {
    const exchange = receiveKernel(mutation)
    return scenario('receiveAndAssert', { ranks: 2 }, async (world) => {
      const inbox = world.empty(f32, [1], { name: 'inbox' })
      const out = world.empty(f32, [1], { name: 'out' })
      world.launch(exchange, { inbox, out, sent: world.flags([], { name: 'sent' }) }, { grid: 1 })
      for (const rank of [0, 1]) expectClose(await world.read(out, rank), [2 - rank])
    })
  },
})

export const diagnostics = [receive]
