/**
 * Computes the tensors that an operator reads from and writes to device memory, from the shapes and types of its
 * operands. Each operator has one rule, which determines the tensors that the operator reads and writes. A rule leaves
 * out tensors that are not certain: the result of a reduction, since the trace does not record the reduced dimensions;
 * the result of a conversion, since its type is not recorded; and lists of tensors, since they have no type. The
 * traffic of an operator without a rule is unknown (null) and never guessed.
 */
import type { Communication, Operands } from '../timeline/timeline.ts'
import { boolean, elementType, type ElementType, float32, isNarrower, promote } from './dtypes.ts'

export interface Tensor {
  readonly shape: readonly number[]
  readonly elements: number
  readonly type: ElementType
  readonly bytes: number
}

/** The known reads and writes of an operation. */
export interface Traffic {
  readonly reads: readonly Tensor[]
  readonly writes: readonly Tensor[]
  /** True if the operation is a matrix product. */
  readonly product?: boolean
  /** True if the operation is attention, which contains matrix products. */
  readonly attention?: boolean
  /** The computation that the operation does, if the extents determine it. */
  readonly computes?: Computation
}

export type Computation = Product | Attention | Norm

/** A matrix product whose right operand is a single matrix. */
export interface Product {
  readonly kind: 'product'
  /** The left operand. The last extent of the left operand is the depth (K), and all other extents are rows. */
  readonly left: Tensor
  readonly right: Tensor
  readonly columns: number
}

export interface Attention {
  readonly kind: 'attention'
  readonly query: Tensor
  readonly key: Tensor
  readonly batch: number
  readonly queryHeads: number
  readonly kvHeads: number
  /** The number of elements per attention head. */
  readonly D: number
  readonly queryTokens: number
  /** The number of tokens per sequence in the key-value cache, or null if the cache is paged. */
  readonly tokens: number | null
}

/** A normalisation over the last dimension. */
export interface Norm {
  readonly kind: 'norm'
  readonly norm: 'layer' | 'rms'
  readonly input: Tensor
}

/** The operands by position, with null for each operand that is not a tensor of a known type. */
type Inputs = readonly (Tensor | null)[]
type Rule = (inputs: Inputs) => Traffic | null

export function tensor(shape: readonly number[], type: ElementType): Tensor {
  const elements = shape.reduce((product, extent) => product * extent, 1)
  return { shape, elements, type, bytes: elements * type.bytes }
}

const present = (inputs: Inputs): Tensor[] => inputs.filter((one) => one !== null)
const known = (...tensors: (Tensor | null | undefined)[]): Tensor[] =>
  tensors.filter((one) => one !== null && one !== undefined)
/**
 * The operand at a position if it has dimensions, otherwise null. A tensor without dimensions is a scalar, which need
 * not be in memory.
 */
const at = (inputs: Inputs, position: number): Tensor | null => {
  const one = inputs.length > position ? inputs[position] : null
  return one && one.shape.length > 0 ? one : null
}

function broadcast(tensors: readonly Tensor[]): number[] | null {
  const shape: number[] = []
  for (const one of tensors)
    for (let i = 1; i <= one.shape.length; i++) {
      const extent = one.shape[one.shape.length - i]
      const wide = shape[i - 1] ?? 1
      if (wide !== extent && wide !== 1 && extent !== 1) return null
      shape[i - 1] = wide === 1 ? extent : wide
    }
  return shape.reverse()
}

/**
 * The type of the result that PyTorch's type promotion gives for the tensors. A scalar operand does not change the
 * result type unless its category is wider; in that case the result type is unknown (null).
 */
function promoted(tensors: readonly Tensor[]): ElementType | null {
  const dimensioned = tensors.filter(({ shape }) => shape.length > 0)
  const counted = dimensioned.length > 0 ? dimensioned : tensors
  let result: ElementType | null = counted.length > 0 ? counted[0].type : null
  for (const one of counted) result = result && promote(result, one.type)
  return result && tensors.some((one) => isNarrower(result, one.type)) ? null : result
}

const made = (shape: readonly number[] | null, type: ElementType | null): Tensor[] =>
  shape && type ? [tensor(shape, type)] : []

/**
 * The rule of an operator with one result that has the broadcast shape of all tensors. The result has the type `always`
 * if it is given, and otherwise the promoted type.
 */
const elementwise =
  (always?: ElementType, from = 0): Rule =>
  (inputs) => {
    const reads = present(inputs)
    return {
      reads,
      writes: made(broadcast(reads), always ?? promoted(present(inputs.slice(from)))),
    }
  }

/**
 * Works like `elementwise`, but leaves out integer results. PyTorch converts integer results to a floating-point type
 * that the trace does not name.
 */
const floating: Rule = (inputs) => {
  const traffic = elementwise()(inputs)
  return (
    traffic && {
      ...traffic,
      writes: traffic.writes.filter(({ type }) => type.category !== 'integer' && type.category !== 'boolean'),
    }
  )
}

/**
 * The rule of an operator that reads all operands, and overwrites some of them or creates tensors of the same shape and
 * type.
 */
const over =
  (...written: readonly number[]): Rule =>
  (inputs) => ({ reads: present(inputs), writes: known(...written.map((position) => at(inputs, position))) })

/**
 * The rule of an operator that reads the operands at the positions `reads` and writes those at the positions `writes`.
 */
const between =
  (reads: readonly number[], writes: readonly number[]): Rule =>
  (inputs) => ({
    reads: known(...reads.map((position) => at(inputs, position))),
    writes: known(...writes.map((position) => at(inputs, position))),
  })

/** The traffic of an operator that overwrites the first operand and reads the others. */
const intoFirst = (inputs: Inputs): Traffic => ({
  reads: present(inputs.slice(1)),
  writes: known(at(inputs, 0)),
})

/**
 * The rule of an operator that reads all tensors. The tensors that the operator writes are unknown, since they depend
 * on arguments that the trace does not record.
 */
const reading: Rule = (inputs) => ({ reads: present(inputs), writes: [] })

/**
 * The rule of an operator that multiplies the operands at positions `a` and `b`, whose last two dimensions form
 * matrices. The dimensions before the last two are broadcast.
 */
const product =
  (a: number, b: number, transposed = false): Rule =>
  (inputs) => {
    const left = at(inputs, a)
    const right = at(inputs, b)
    if (!left || !right) return null
    const shape = productShape(left.shape, right.shape, transposed)
    const type = left.type === right.type ? left.type : null
    const traffic = { reads: present(inputs), writes: made(shape, type), product: true }
    if (!shape || left.shape.length < 2 || right.shape.length !== 2) return traffic
    return { ...traffic, computes: { kind: 'product', left, right, columns: shape[shape.length - 1] } }
  }

/**
 * The extents of a matrix product, or null if the shapes of the operands do not fit. The second operand of a linear
 * layer is transposed.
 */
export function productShape(
  left: readonly number[],
  right: readonly number[],
  transposed = false,
): number[] | null {
  if (left.length === 0 || right.length === 0) return null
  const depth = left[left.length - 1]
  if (transposed) return right.length === 2 && right[1] === depth ? [...left.slice(0, -1), right[0]] : null
  if (right[Math.max(0, right.length - 2)] !== depth) return null
  const outer = broadcastShapes(left.slice(0, -2), right.slice(0, -2))
  return outer && [...outer, ...left.slice(-2, -1), ...(right.length > 1 ? right.slice(-1) : [])]
}

const broadcastShapes = (a: readonly number[], b: readonly number[]): number[] | null =>
  broadcast([tensor(a, float32), tensor(b, float32)])

/**
 * The indices of the dimensions that count heads and tokens. In the operands of attention, the first dimension is the
 * batch, and the last dimension has the elements of a head.
 */
interface HeadLayout {
  readonly heads: number
  readonly tokens: number
}
const headsFirst: HeadLayout = { heads: 1, tokens: 2 }
const tokensFirst: HeadLayout = { heads: 2, tokens: 1 }

/**
 * The rule of attention with queries at position `q` and values at position `v`. The result has the shape of the
 * queries, except that its last extent is the head size of the values.
 */
const attention =
  (q: number, v: number, layout?: HeadLayout): Rule =>
  (inputs) => {
    const query = at(inputs, q)
    const key = at(inputs, q + 1)
    const value = at(inputs, v)
    if (!query || !value || query.shape.length < 3) return null
    const shape = [...query.shape.slice(0, -1), value.shape[value.shape.length - 1]]
    const reads = present(inputs.slice(q, v + 1))
    const traffic = { reads, writes: [tensor(shape, query.type)], attention: true }
    if (!layout || !key || query.shape.length !== 4 || key.shape.length !== 4) return traffic
    const { heads, tokens } = layout
    return { ...traffic, computes: attending(query, key, heads, query.shape[tokens], key.shape[tokens]) }
  }

/**
 * The rule of paged attention with one query token per sequence. In a page of the cache, the heads are the second
 * dimension, after the page number.
 */
const pagedAttention =
  (q: number): Rule =>
  (inputs) => {
    const [out, query, pages] = [at(inputs, 0), at(inputs, q), at(inputs, q + 1)]
    const traffic = { reads: known(query), writes: known(out) }
    if (query?.shape.length !== 3 || !pages || pages.shape.length < 2) return traffic
    return { ...traffic, computes: attending(query, pages, 1, 1, null) }
  }

const attending = (
  query: Tensor,
  key: Tensor,
  heads: number,
  queryTokens: number,
  tokens: number | null,
): Attention => ({
  kind: 'attention',
  query,
  key,
  batch: query.shape[0],
  queryHeads: query.shape[heads],
  kvHeads: key.shape[heads],
  D: query.shape[query.shape.length - 1],
  queryTokens,
  tokens,
})

const normalisation: Rule = (inputs) => {
  const input = at(inputs, 0)
  return input && { reads: present(inputs), writes: [input] }
}

/**
 * A normalisation. Among the operands, the weights follow the list of normalised extents. The shape of the weights
 * shows whether only the last dimension is normalised.
 */
const norm =
  (norm: Norm['norm']): Rule =>
  (inputs) => {
    const traffic = normalisation(inputs)
    const [input, weights] = [at(inputs, 0), at(inputs, 2)]
    return (
      traffic && { ...traffic, computes: input && weights ? normalising(norm, input, weights) : undefined }
    )
  }

const normalising = (norm: Norm['norm'], input: Tensor, { shape }: Tensor): Norm | undefined =>
  shape.length === 1 && shape[0] === input.shape[input.shape.length - 1]
    ? { kind: 'norm', norm, input }
    : undefined

/** The rule of an operator that looks up rows of a table. Of the table, only the looked-up rows are read. */
const embedding: Rule = (inputs) => {
  const [table, indices] = [at(inputs, 0), inputs.length > 1 ? inputs[1] : null]
  if (!table || !indices || table.shape.length !== 2) return null
  return { reads: [indices], writes: [tensor([...indices.shape, table.shape[1]], table.type)] }
}

/**
 * Softmax. For half-precision input, the program may request a single-precision result, so the type of the result is
 * unknown.
 */
const softmax: Rule = (inputs) => {
  const input = at(inputs, 0)
  return input && { reads: [input], writes: input.type.bytes >= 4 ? [input] : [] }
}

const words = (text: string): string[] => text.trim().split(/\s+/)
const all = (names: string, rule: Rule): [string, Rule][] => words(names).map((name) => [name, rule])

/**
 * Rules keyed by operator name without the namespace `aten::`. An operator whose name ends in `_` overwrites its first
 * operand.
 */
const aten = new Map<string, Rule>([
  ...all('mm bmm matmul', product(0, 1)),
  ...all('addmm baddbmm _addmm_activation', product(1, 2)),
  ...all('linear', product(0, 1, true)),
  ...all(
    '_scaled_mm sum mean amax amin prod norm linalg_vector_norm var std all any argmax argmin max min topk sort',
    reading,
  ),
  ...all(
    'convolution _convolution cudnn_convolution miopen_convolution conv2d convolution_backward',
    reading,
  ),
  ...all('to _to_copy nll_loss_forward nll_loss index_select gather item _local_scalar_dense', reading),
  ...all(
    'add sub rsub mul pow neg abs clamp clamp_min clamp_max maximum minimum relu gelu silu hardtanh',
    elementwise(),
  ),
  ...all(
    'leaky_relu elu softplus mish fmod remainder bitwise_not bitwise_and bitwise_or bitwise_xor lerp',
    elementwise(),
  ),
  ...all(
    'addcmul addcdiv masked_fill floor ceil round trunc sign square nan_to_num threshold',
    elementwise(),
  ),
  ...all('gelu_backward silu_backward threshold_backward sigmoid_backward tanh_backward', elementwise()),
  ...all(
    'elu_backward leaky_relu_backward hardtanh_backward dropout clone contiguous flip roll',
    elementwise(),
  ),
  ...all(
    'sqrt rsqrt exp exp2 expm1 log log2 log10 log1p sin cos tan tanh sigmoid erf reciprocal div',
    floating,
  ),
  ...all('true_divide atan2', floating),
  ...all(
    'eq ne lt le gt ge logical_and logical_or logical_not logical_xor isnan isinf isfinite',
    elementwise(boolean),
  ),
  ...all('where', elementwise(undefined, 1)),
  ...all('softmax _softmax log_softmax _log_softmax', softmax),
  ...all('_softmax_backward_data _log_softmax_backward_data', elementwise()),
  ...all('layer_norm native_layer_norm', norm('layer')),
  ...all('rms_norm _fused_rms_norm', norm('rms')),
  ...all('group_norm native_group_norm batch_norm native_batch_norm cudnn_batch_norm', normalisation),
  ...all('miopen_batch_norm _native_batch_norm_legit', normalisation),
  ...all('native_layer_norm_backward', over(1)),
  ...all('native_batch_norm_backward miopen_batch_norm_backward cudnn_batch_norm_backward', over(0)),
  ...all('embedding', embedding),
  ...all('copy_', between([1], [0])),
  ...all('fill_ zero_ uniform_ normal_ random_ bernoulli_', between([], [0])),
  ...all('native_dropout _fused_dropout', (inputs) => {
    const input = at(inputs, 0)
    return input && { reads: [input], writes: [input, tensor(input.shape, boolean)] }
  }),
  ...all('scaled_dot_product_attention _scaled_dot_product_flash_attention', attention(0, 2, headsFirst)),
  ...all(
    '_scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention',
    attention(0, 2, headsFirst),
  ),
  ...all('_flash_attention_forward _efficient_attention_forward', attention(0, 2, tokensFirst)),
  ...all('_scaled_dot_product_flash_attention_backward _flash_attention_backward', over(1, 2, 3)),
  ...all('_scaled_dot_product_cudnn_attention_backward', over(1, 2, 3)),
])

/** Rules of operators outside `aten::`, keyed by full name. */
const others = new Map<string, Rule>([
  ...all('_C::rms_norm', (inputs) => {
    const [input, weights] = [at(inputs, 1), at(inputs, 2)]
    return {
      ...intoFirst(inputs),
      computes: input && weights ? normalising('rms', input, weights) : undefined,
    }
  }),
  ...all('_C::static_scaled_fp8_quant', (inputs) => intoFirst(inputs)),
  ...all('_C::fused_add_rms_norm', over(0, 1)),
  ...all('_C::silu_and_mul _C::gelu_and_mul _C::gelu_tanh_and_mul _C::mul_and_silu', between([1], [0])),
  ...all('sgl_kernel::silu_and_mul sgl_kernel::gelu_and_mul', between([1], [0])),
  ...all('_C::rotary_embedding', between([0, 1, 2], [1, 2])),
  ...all('_C_cache_ops::reshape_and_cache_flash _C_cache_ops::reshape_and_cache', between([0, 1], [])),
  // Paged attention reads only the pages of the key-value cache that belong to the running sequences.
  ...all('_C::paged_attention_v1', pagedAttention(1)),
  ...all('_C::paged_attention_v2', pagedAttention(4)),
  ...all('vllm::unified_attention_with_output', between([0, 1, 2], [3])),
  ...all('flash_attn::_flash_attn_forward', attention(0, 2, tokensFirst)),
  ...all('flash_attn::_flash_attn_varlen_forward', attention(0, 2)),
  ...all('vllm::all_reduce', over(0)),
  ...all('symm_mem::multimem_all_reduce_ symm_mem::two_shot_all_reduce_', over(0)),
  ...all('symm_mem::one_shot_all_reduce', over(0)),
  ...all('c10d::_allgather_base_ c10d::_reduce_scatter_base_', between([1], [0])),
])

/**
 * The traffic of an operator call. Returns null if the operator has no rule, or if the rule does not fit the operands.
 */
export function trafficOf(operator: string, { shapes, types }: Operands): Traffic | null {
  const rule = ruleOf(operator)
  if (!rule) return null
  const inputs = shapes.map((shape, i) => {
    const type = elementType(types[i] ?? '')
    return type && tensor(shape, type)
  })
  return sane(rule(inputs))
}

/**
 * The largest number of bytes in a tensor. No device has memory for a larger tensor, so a larger tensor follows from
 * damaged data.
 */
const MOST = 2 ** 46

/** Removes tensors of impossible size, and returns null if no tensor is left. */
function sane(traffic: Traffic | null): Traffic | null {
  if (!traffic) return null
  const fits = ({ bytes }: Tensor): boolean => bytes <= MOST
  const [reads, writes] = [traffic.reads.filter(fits), traffic.writes.filter(fits)]
  if (reads.length + writes.length === 0) return null
  const isWhole = reads.length === traffic.reads.length && writes.length === traffic.writes.length
  return { ...traffic, reads, writes, computes: isWhole ? traffic.computes : undefined }
}

function ruleOf(operator: string): Rule | undefined {
  if (!operator.startsWith('aten::')) return others.get(operator)
  const name = operator.slice('aten::'.length)
  const rule = aten.get(name)
  if (rule || !name.endsWith('_')) return rule
  // The in-place variant of an operator has the same operands.
  return aten.has(name.slice(0, -1)) ? over(0) : undefined
}

/** The tensors that a rank sends and receives in a communication, or null if the trace does not state them. */
export function communicationTraffic({ dtype, elementsIn, elementsOut }: Communication): Traffic | null {
  const type = elementType(dtype ?? '')
  if (!type) return null
  const of = (elements: number | null): Tensor[] =>
    elements !== null && elements > 0 ? [tensor([elements], type)] : []
  return sane({ reads: of(elementsIn), writes: of(elementsOut) })
}
