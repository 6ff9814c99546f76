/**
 * A message between ranks that an atomic on a 32-bit word announces: one kernel for each kind of atomic that no other
 * kernel of the suite uses.
 */
import { f32, i32, kernel, tensor } from '../../../src/index.ts'
import { expectClose, scenario } from '../../../src/world/world.ts'
import { original, type Mutants } from '../suite.ts'

const file = import.meta.url

const announceMutants = {
  'announces-before-storing': {
    kind: 'race',
    lines: ['read', 'store'],
    also: [{ kind: 'uninitialised', lines: ['read'] }],
  },
  'relaxed-atomic': { kind: 'race', lines: ['read', 'store'] },
  'relaxed-poll': { kind: 'race', lines: ['read', 'store'] },
  'atomic-at-device-scope': {
    kind: 'scope-race',
    lines: ['announce', 'poll'],
    also: [{ kind: 'race', lines: ['read', 'store'] }],
  },
  'another-word': { kind: 'deadlock', lines: ['loop'] },
} satisfies Mutants
type AnnounceMutation = keyof typeof announceMutants

/** The value of the word before the atomic, the operand, and the value of the word after the atomic. */
const words = {
  sub: [3, 2, 1],
  min: [3, 2, 2],
  max: [3, 4, 4],
  and: [3, 5, 1],
  or: [3, 5, 7],
  xor: [3, 5, 6],
} as const
type AtomicName = keyof typeof words

const announceKernel = (name: AtomicName, mutation?: AnnounceMutation) =>
  kernel('announce', { inbox: tensor(f32, 1), out: tensor(f32, 1), word: tensor(i32, 1) }, (t, args) => {
    const { inbox, out, word } = args
    const [, operand, after] = words[name]
    const poll = () => t.load(word.at([0]), { order: mutation === 'relaxed-poll' ? 'relaxed' : 'acquire' }) // @line poll
    t.if(
      t.rank.eq(1),
      () => {
        const store = () => t.store(inbox.on(0).at([0]), 21) // @line store
        const isEarly = mutation === 'announces-before-storing'
        if (!isEarly) store()
        const order = mutation === 'relaxed-atomic' ? 'relaxed' : 'release'
        const scope = mutation === 'atomic-at-device-scope' ? 'device' : 'system'
        const at = word.on(0).at([mutation === 'another-word' ? 1 : 0])
        const change = t.atomic[name] as typeof t.atomic.or
        change.call(t.atomic, at, operand, { order, scope }) // @line announce
        if (isEarly) store()
      },
      () => {
        t.while(poll(), (seen) => seen.ne(after), poll) // @line loop
        t.store(out.at([0]), t.load(inbox.at([0])).mul(2)) // @line read
      },
    )
  })

const announcing = (name: AtomicName) =>
  original<AnnounceMutation>({
    name: `announceBy_${name}`,
    file,
    ranks: 2,
    mutants: announceMutants,
    scenario(mutation) {
      const announce = announceKernel(name, mutation)
      return scenario(`announce by ${name}`, { ranks: 2 }, async (world) => {
        const inbox = world.empty(f32, [1], { name: 'inbox' })
        const out = world.empty(f32, [1], { name: 'out' })
        const word = world.full(i32, [2], words[name][0], { name: 'word' })
        world.launch(announce, { inbox, out, word }, { grid: 1 })
        expectClose(await world.read(out, 0), [42])
      })
    },
  })

export const atomics = (Object.keys(words) as AtomicName[]).map(announcing)
