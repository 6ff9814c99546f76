/** Tests the C++ that is generated from Code, the intermediate language: its control flow and its readability. */
import { describe, expect, test } from 'vitest'
import {
  add,
  address,
  binary,
  codeFunction,
  compare,
  fma,
  i32,
  max,
  mul,
  sub,
  f32,
  splat,
  type Operand,
  type Writer,
} from '../../../src/targets/cpu/build.ts'
import type { CodeModule, Local, Machine } from '../../../src/targets/cpu/code.ts'
import { renderCpp } from '../../../src/targets/native/render.ts'
import { engineForTests, entryOf, load, moduleOf, sharedMemory } from './engine.ts'

const machine: Machine = {
  name: 'native',
  lanes: 8,
  rows: 6,
  columns: 2,
  prefetches: true,
  l1: 32768,
  l2: 524288,
}
const textOf = (module: Omit<CodeModule, 'machine'>): string => renderCpp({ ...module, machine })

/** Computes y = max(a * x + y, 0) on n numbers, where n is a multiple of the lanes. */
const scaleAndAdd = codeFunction(
  'scaleAndAdd',
  [
    ['x', 'ptr'],
    ['y', 'ptr'],
    ['a', 'f32'],
    ['n', 'i32'],
  ],
  (w, x, y, a, n) => {
    const factor = w.let('factor', splat(a))
    w.for('i', 0, n, 8, (i) => {
      const left = w.load('left', 'vf32', 'f32', address(x, i, 4))
      const right = w.load('right', 'vf32', 'f32', address(y, i, 4))
      w.store('f32', address(y, i, 4), max(fma(factor, left, right), splat(f32(0))))
    })
  },
  { hot: true },
)

test('renders a small function as readable C++', () => {
  const entry = entryOf((w, launch) => {
    const x = w.loadPointer('x', launch, 64)
    const y = w.loadPointer('y', launch, 96)
    w.call(scaleAndAdd, x, y, f32(0.5), w.load('n', 'i32', 'i32', launch, 72))
  })
  const text = textOf({ name: 'scale and add', entries: [entry] })
  expect(text.slice(text.indexOf('namespace'))).toMatchInlineSnapshot(`
    "namespace kernel {

    static __attribute__((noinline)) void scaleAndAdd(ptr x, ptr y, f32 a, i32 n) {
      vf32 factor = splat(a);
      for (i32 i = 0; i < n; i += 8) {
        vf32 left = load<vf32>(x + (i64)i * 4);
        vf32 right = load<vf32>(y + (i64)i * 4);
        store<vf32>(y + (i64)i * 4, greater<vf32>(fma(factor, left, right), splat(0.0f)));
      }
    }

    static i32 entry(char* memory, ptr launch, ptr frame, ptr slot) {
      ptr x = memory + load<i64>(launch + 64);
      ptr y = memory + load<i64>(launch + 96);
      i32 n = load<i32>(launch + 72);
      scaleAndAdd(x, y, 0.5f, n);
      return 0;
    }

    }  // namespace kernel

    extern "C" const i32 arke_entries = 1;
    extern "C" i32 entry0(char* memory, i64 launch, i64 frame, i64 slot) {
      return kernel::entry(memory, memory + launch, memory + frame, memory + slot);
    }
    "
  `)
})

test('prints only the used parts of the prelude', () => {
  const text = textOf({ name: 'nothing', entries: [entryOf(() => i32(1))] })
  expect(text.slice(0, text.indexOf('namespace'))).toMatchInlineSnapshot(`
    "// nothing, for vectors of 8 lanes.

    typedef int i32;
    typedef long long i64;
    typedef char* ptr;

    "
  `)
})

test('avoids names that C++, the prelude or functions use, and text that is not an identifier', () => {
  const entry = entryOf((w) => {
    const a = w.let('double', i32(1))
    const b = w.let('load', add(a, i32(2)))
    const c = w.let('load', mul(b, b))
    return w.let('2 words', sub(c, a))
  }, 'int')
  const text = textOf({ name: 'names', entries: [entry] })
  expect(text).toContain('static i32 int_2(ptr launch, ptr frame, ptr slot)')
  expect(text).toContain('i32 load_3 = load_2 * load_2;')
})

const engine = engineForTests()

describe.skipIf(!engine)('control flow', () => {
  const memory = sharedMemory(8)
  const view = new DataView(memory.buffer)
  const run = (
    write: (w: Writer, n: Local, frame: Local) => Operand | void,
    ...inputs: number[]
  ): number[] => {
    const entry = entryOf((w, launch, frame) => write(w, w.load('n', 'i32', 'i32', launch), frame))
    const [call] = load(engine!, moduleOf(engine!, 'control', [entry]), memory)
    return inputs.map((input) => {
      view.setInt32(65536, input, true)
      return call(65536, 2 * 65536, 3 * 65536)
    })
  }

  test('if and otherwise, with a local that both branches set', () => {
    const found = run(
      (w, n) => {
        const result: Local = { type: 'i32', name: 'result' }
        w.if(
          compare('lt', n, i32(0)),
          () => w.set(result, i32(-1)),
          () => w.if(compare('gt', n, i32(0)), () => w.set(result, i32(1))),
        )
        return result
      },
      ...[-5, 0, 5],
    )
    // A local variable that no statement has set is 0.
    expect(found).toEqual([-1, 0, 1])
  })

  test('for with steps, with no iteration, and with a bound that its body changes', () => {
    const found = run(
      (w, n) => {
        const sum = w.let('sum', i32(0))
        const bound = w.let('bound', n)
        w.for('i', i32(1), bound, 3, (i) => {
          w.set(sum, add(sum, i))
          w.set(bound, i32(0))
        })
        return sum
      },
      ...[-4, 0, 1, 2, 11],
    )
    const sumOf = (n: number): number => {
      let sum = 0
      for (let i = 1; i < n; i += 3) sum += i
      return sum
    }
    expect(found).toEqual([-4, 0, 1, 2, 11].map(sumOf))
  })

  test('break leaves the innermost loop, and return leaves all loops', () => {
    const found = run(
      (w, n) => {
        const count = w.let('count', i32(0))
        w.loop(() => {
          w.for('i', 0, i32(100), 1, (i) => {
            w.if(compare('ge', i, i32(10)), () => w.break())
            w.set(count, add(count, i32(1)))
            w.if(compare('eq', count, n), () => w.return(mul(count, i32(1000))))
          })
          w.if(compare('ge', count, i32(50)), () => w.break())
        })
        return count
      },
      ...[7, 33, 99],
    )
    expect(found).toEqual([7000, 33000, 50])
  })

  test('locals that a loop carries from one iteration to the next', () => {
    // This function computes Fibonacci numbers. Both local variables are read before they are set in an iteration.
    const [found] = run((w, n) => {
      const a = w.let('a', i32(0))
      const b = w.let('b', i32(1))
      w.for('i', 0, n, 1, () => {
        const next = w.let('next', add(a, b))
        w.set(a, b)
        w.set(b, next)
      })
      return a
    }, 20)
    expect(found).toBe(6765)
  })

  test('a local set in one iteration keeps its value for a later iteration', () => {
    const [found] = run((w, n) => {
      const kept: Local = { type: 'i32', name: 'kept' }
      const sum = w.let('sum', i32(0))
      w.for('i', 0, n, 1, (i) => {
        w.if(compare('eq', i, i32(0)), () => w.set(kept, i32(5)))
        w.set(sum, add(sum, kept))
      })
      return sum
    }, 4)
    expect(found).toBe(20)
  })

  test('calls with arguments of every type, with results, and with or without access to the memory', () => {
    const triple = codeFunction('triple', [['x', 'i32']], (w, x) => w.return(mul(x, i32(3))), {
      result: 'i32',
      hot: true,
    })
    const nothing = codeFunction('nothing', [['p', 'ptr']], (w, p) => w.store('i32', p, i32(11), 4))
    const follow = codeFunction(
      'follow',
      [['p', 'ptr']],
      (w, p) => w.return(w.load('x', 'i32', 'i32', w.loadPointer('there', p))),
      { result: 'i32' },
    )
    view.setBigInt64(2 * 65536 + 8, BigInt(2 * 65536 + 4), true)
    const [found] = run((w, n, frame) => {
      w.call(nothing, frame)
      return add(w.call(triple, n)!, w.call(follow, address(frame, 0, 1, 8))!)
    }, 5)
    expect(found).toBe(26)
  })

  test('integers wrap, and comparisons yield 0 or 1', () => {
    const found = run(
      (w, n) => binary('xor', add(n, i32(1)), binary('min', compare('lt', n, i32(3)), i32(1))),
      ...[0x7fffffff, 0],
    )
    expect(found).toEqual([-0x80000000, 0])
  })
})
