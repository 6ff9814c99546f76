/**
 * The record of the op `random`, which returns random numbers. For equal inputs, `random` returns the same bits on
 * every target, in any order of execution.
 */
import { attribute } from '../node.ts'
import { philox, philoxBlock } from '../philox.ts'
import { elements, sameShape, typeName, valueType } from '../type.ts'
import { elementwise, map, shapeOf } from './elementwise.ts'
import { expectAmong, expectInputs, expectValue, fail, type Op } from './op.ts'

export const randomOps = {
  random: {
    ...elementwise,
    // One round of the Philox generator computes two 64-bit products, four exclusive ors and two additions.
    operations: 10 * philox.rounds,
    summary:
      'random bits: word `word` of the block that the generator Philox4x32-10 computes from a counter (four words) and a key (two words)',
    infer(node) {
      expectInputs(node, 6)
      const [first, ...rest] = node.inputs.map((input, i) =>
        expectValue(input, i < 4 ? 'a word of the counter' : 'a word of the key'),
      )
      for (const type of [first, ...rest]) {
        expectAmong(['u32'], type.dtype)
        if (!sameShape(type.shape, first.shape))
          fail(`the words differ: ${typeName(first)} and ${typeName(type)}`)
      }
      if (![0, 1, 2, 3].includes(node.attributes.word as number))
        fail(`the attribute \`word\` is ${node.attributes.word}, but a block of random bits has words 0 to 3`)
      return valueType('u32', first.shape)
    },
    evaluate(node, inputs) {
      const word = attribute<number>(node, 'word')
      return map(elements(shapeOf(node)), inputs, (...x) => philoxBlock(x.slice(0, 4), x.slice(4))[word])
    },
  },
} as const satisfies Record<string, Op>
