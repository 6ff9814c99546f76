/** Collects the kernel parameters that the emitted body uses, and declares them in a fixed order. */
import { attribute, type KernelIR, type Node } from '../../../ir/node.ts'
import type { TensorType, ValueType } from '../../../ir/type.ts'
import { code, plain, word, type Code, type Part } from './code.ts'
import type { MapPlan } from './copies.ts'
import { lib } from './library.ts'
import type { ParamRecipe } from './recipe.ts'
import { registerType } from './spell.ts'
import type { Names } from './names.ts'

interface Declared {
  readonly recipe: ParamRecipe
  readonly name: string
  readonly type: Code
}

const order: readonly ParamRecipe['kind'][] = [
  'pointer',
  'dim',
  'scalar',
  'map',
  'flags',
  'epochs',
  'rank',
  'heapStride',
  'places',
  'counters',
  'settled',
  'control',
  'log',
]

const suffixes = [
  ...['_dim0', '_dim1', '_dim2', '_dim3', '_epochs', '_signal_epoch', '_wait_epoch'],
  ...['_map', '_all_ranks_map']
    .flatMap((map) => [map, `${map}_of_8_rows`, `${map}_of_1_row`])
    .flatMap((map) => [map, ...[2, 3, 4, 5, 6, 7, 8].map((i) => `${map}_${i}`)]),
]

export class Params {
  readonly #names: ReadonlyMap<string, string>
  readonly #nodes: ReadonlyMap<string, Node>
  readonly #declared = new Map<string, Declared>()
  readonly #ranks: number
  #counters = 0

  /** Reserves all possible parameter names, so that no variable gets one of them. */
  constructor(ir: KernelIR, names: Names) {
    this.#ranks = ir.world
    this.#nodes = new Map(ir.body.params.map((node) => [attribute<string>(node, 'name'), node]))
    this.#names = new Map([...this.#nodes.keys()].map((name) => [name, names.take(name)]))
    for (const base of this.#names.values()) for (const suffix of suffixes) names.take(`${base}${suffix}`)
  }

  #base(of: string): string {
    return this.#names.get(of)!
  }

  #ask(recipe: ParamRecipe, base: string, type: Part): Code {
    const key = JSON.stringify(recipe)
    let declared = this.#declared.get(key)
    if (!declared) {
      const taken = new Set([...this.#declared.values()].map(({ name }) => name))
      let name = base
      for (let i = 2; taken.has(name); i++) name = `${base}_${i}`
      this.#declared.set(key, (declared = { recipe, name, type: plain(type) }))
    }
    return word(declared.name)
  }

  pointer(tensor: string): Code {
    const node = this.#nodes.get(tensor)!
    return this.#ask(
      { kind: 'pointer', tensor },
      this.#base(tensor),
      code`${registerType((node.type as TensorType).dtype)}*`,
    )
  }
  dim(of: string, axis: number): Code {
    return this.#ask({ kind: 'dim', of, axis }, `${this.#base(of)}_dim${axis}`, lib.i32)
  }
  scalar(name: string): Code {
    const node = this.#nodes.get(name)!
    const { dtype } = node.type as ValueType
    return this.#ask({ kind: 'scalar', name, dtype }, this.#base(name), registerType(dtype))
  }
  map(plan: MapPlan): Code {
    const { tensor, box, swizzle, ranked, rows } = plan
    const part = rows === undefined ? '' : `_of_${rows}_${rows === 1 ? 'row' : 'rows'}`
    return this.#ask(
      { kind: 'map', tensor, box, swizzle, ranked },
      `${this.#base(tensor)}_${ranked ? 'all_ranks_' : ''}map${part}`,
      code`const __grid_constant__ ${lib.TensorMap}`,
    )
  }
  flags(flags: string): Code {
    return this.#ask({ kind: 'flags', flags }, this.#base(flags), 'u32*')
  }
  epochs(flags: string): Code {
    return this.#ask({ kind: 'epochs', flags }, `${this.#base(flags)}_epochs`, 'u32*')
  }
  get rank(): Code {
    return this.#ask({ kind: 'rank' }, 'rank', lib.i32)
  }
  get heapStride(): Code {
    return this.#ask({ kind: 'heapStride' }, 'heap_stride', lib.i64)
  }
  /**
   * A table with the position of each rank's heap in the world, for a group whose ranks are not at a constant distance.
   */
  get places(): Code {
    const ranks = this.#ranks
    return this.#ask(
      { kind: 'places', ranks },
      'heap_places',
      code`const __grid_constant__ ${lib.Places}<${ranks}>`,
    )
  }
  get control(): Code {
    return this.#ask({ kind: 'control' }, 'control', code`${lib.Control}*`)
  }
  /** A bit mask with one bit per group of tensors. A bit is set if no running launch writes any tensor of its group. */
  settled(groups: readonly (readonly string[])[]): Code {
    return this.#ask({ kind: 'settled', groups }, 'settled', 'u32')
  }
  get log(): Code {
    return this.#ask({ kind: 'log' }, 'event_log', code`${lib.Log}*`)
  }
  /** Allocates u32 counter words that only one kernel uses, and returns the address of the first word as C++ text. */
  counter(words = 1): Code {
    const first = this.#counters
    this.#counters += words
    return code`counters + ${first}`
  }

  get maps(): readonly string[] {
    return this.all.filter(({ recipe }) => recipe.kind === 'map').map(({ name }) => name)
  }

  /** All used parameters, in the order of the kernel's signature. */
  get all(): readonly Declared[] {
    const declared = [...this.#declared.values()]
    if (this.#counters > 0)
      declared.push({
        recipe: { kind: 'counters', words: this.#counters },
        name: 'counters',
        type: plain('u32*'),
      })
    const tensors = [...this.#nodes.keys()]
    const subject = ({ recipe }: Declared): number => {
      if ('tensor' in recipe) return tensors.indexOf(recipe.tensor)
      if ('of' in recipe) return tensors.indexOf(recipe.of)
      if ('flags' in recipe) return tensors.indexOf(recipe.flags)
      return 'name' in recipe ? tensors.indexOf(recipe.name) : 0
    }
    const axis = ({ recipe }: Declared): number => (recipe.kind === 'dim' ? recipe.axis : 0)
    return declared.sort(
      (a, b) =>
        order.indexOf(a.recipe.kind) - order.indexOf(b.recipe.kind) ||
        subject(a) - subject(b) ||
        axis(a) - axis(b),
    )
  }
}
