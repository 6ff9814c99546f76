/** Rank groups: two overlapping groups of one world pass numbers around their own rings at the same time. */
import { f32, flags, kernel, tensor } from '../../../src/index.ts'
import { expectClose, scenario, type World } from '../../../src/world/world.ts'
import { original, variant, type Mutants } from '../suite.ts'

const file = import.meta.url

const ringsMutants = {
  'signals-the-wrong-member': {
    kind: 'uninitialised',
    lines: ['read'],
    says: ['(rank 0 of group [3, 0, 2])'],
    also: [
      { kind: 'race', lines: ['read', 'send'] },
      { kind: 'deadlock', lines: ['await', 'await'] },
    ],
  },
  'writes-to-the-wrong-member': {
    kind: 'uninitialised',
    lines: ['read'],
    also: [{ kind: 'race', lines: ['read', 'send'] }],
  },
  'reads-a-rank-of-the-world': {
    kind: 'out-of-bounds',
    lines: ['read'],
    says: ['(rank 2 of group [3, 0, 2])'],
    also: [
      { kind: 'race', lines: ['read', 'send'] },
      { kind: 'uninitialised', lines: ['read'] },
    ],
  },
  'does-not-wait': {
    kind: 'uninitialised',
    lines: ['read'],
    also: [{ kind: 'race', lines: ['read', 'send'] }],
  },
  'shares-the-inbox': {
    kind: 'race',
    lines: ['send', 'send'],
    says: ['(rank 1 of group [3, 0, 2])', '(rank 1 of group [2, 1])'],
    also: [{ kind: 'race', lines: ['read', 'send'] }],
  },
} satisfies Mutants
type RingsMutation = keyof typeof ringsMutants

const ringKernel = (mutation?: RingsMutation) =>
  kernel('ring', { inbox: tensor(f32, 1), out: tensor(f32, 1), sent: flags() }, (t, { inbox, out, sent }) => {
    const step = (by: number) => t.rank.add(by).mod(t.world)
    const to = step(variant<RingsMutation, number>(mutation, { 'writes-to-the-wrong-member': 2 }, 1))
    t.store(inbox.on(to).at([0]), t.rank.to(f32)) // @line send
    const signalled = mutation === 'signals-the-wrong-member' ? t.rank.mul(0) : step(1)
    t.signal(sent.on(signalled))
    if (mutation !== 'does-not-wait') t.wait(sent) // @line await
    const from = mutation === 'reads-a-rank-of-the-world' ? t.rank.add(1) : t.rank
    t.store(out.at([0]), t.load(inbox.on(from).at([0]))) // @line read
  })

const rings = original<RingsMutation>({
  name: 'ringsOfGroups',
  file,
  ranks: 4,
  mutants: ringsMutants,
  scenario(mutation) {
    const ring = ringKernel(mutation)
    return scenario('ringsOfGroups', { ranks: 4 }, async (world) => {
      const [three, two] = [world.group([3, 0, 2]), world.group([2, 1])]
      const allocate = (group: World) => ({
        inbox: world.empty(f32, [1], { name: 'inbox' }),
        out: world.zeros(f32, [1], { name: 'out' }),
        sent: group.flags([], { name: 'sent' }),
      })
      const [ofThree, ofTwo] = [allocate(three), allocate(two)]
      three.launch(ring, ofThree, { grid: 1 })
      const inbox = mutation === 'shares-the-inbox' ? ofThree.inbox : ofTwo.inbox
      // The groups share a rank, which takes part in both rings at the same time, because their streams differ.
      two.launch(ringKernel(), { ...ofTwo, inbox }, { grid: 1, stream: two.stream() })
      for (const rank of [0, 1, 2]) expectClose(await three.read(ofThree.out, rank), [(rank + 2) % 3])
      for (const rank of [0, 1]) expectClose(await two.read(ofTwo.out, rank), [1 - rank])
    })
  },
})

export const groups = [rings]
