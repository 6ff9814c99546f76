/**
 * The categories of time in the report, and their colours. A colour has the same meaning in all bars, tracks and
 * tables. The colours were chosen so that any two of them, and each of them and the background, differ as much as
 * possible. The colours can be told apart with normal vision and with each of the three kinds of colour blindness.
 * Waiting is also hatched, so that it can be distinguished in grey print.
 */
import { Kind } from '../timeline/timeline.ts'
import { partNames, type Part } from '../taxes/ledger.ts'

export interface Category {
  readonly name: string
  readonly label: string
  readonly meaning: string
  readonly light: string
  readonly dark: string
}

/** The categories of time. The code of a category is its index in the list. */
export const categories = [
  {
    name: 'compute',
    label: 'Compute',
    meaning: 'a kernel or a fill runs',
    light: '#1e5693',
    dark: '#4c95f5',
  },
  {
    name: 'launch',
    label: 'Launch',
    meaning: 'idle: the host is still dispatching (dispatch), or the device is between two kernels (gap)',
    light: '#fbc92f',
    dark: '#ddb839',
  },
  {
    name: 'wait',
    label: 'Wait',
    meaning: 'the rank is in a collective that another rank has not reached yet',
    light: '#a92503',
    dark: '#d2490b',
  },
  {
    name: 'transfer',
    label: 'Exposed transfer',
    meaning: 'a collective moves data while nothing is computed',
    light: '#71d9f7',
    dark: '#47d6fd',
  },
  {
    name: 'unsplit',
    label: 'Communication, unsplit',
    meaning:
      'exposed communication that cannot be split into wait and transfer, because traces of other ranks are missing',
    light: '#ca72dd',
    dark: '#9e6192',
  },
  {
    name: 'copy',
    label: 'Exposed copy',
    meaning: 'only a copy runs',
    light: '#8db17c',
    dark: '#d2f0ba',
  },
  {
    name: 'other',
    label: 'Other idle',
    meaning:
      'idle: the host waits or does something else, or the stream waits for an event of another stream; or a processor has nothing to do while another one of its rank is busy',
    light: '#787b80',
    dark: '#44484e',
  },
] as const satisfies readonly Category[]

export type CategoryName = (typeof categories)[number]['name']

export const categoryCount = categories.length
export const codeOf = (name: CategoryName): number =>
  categories.findIndex((category) => category.name === name)

const COMPUTE = codeOf('compute')
const LAUNCH = codeOf('launch')
export const WAIT = codeOf('wait')
export const TRANSFER = codeOf('transfer')
const UNSPLIT = codeOf('unsplit')
const COPY = codeOf('copy')
const OTHER = codeOf('other')

function categoryOfPart(part: Part): number {
  switch (part) {
    case 'compute':
      return COMPUTE
    case 'transfer':
      return TRANSFER
    case 'wait':
      return WAIT
    case 'communication':
      return UNSPLIT
    case 'copy':
      return COPY
    case 'dispatch':
    case 'gap':
      return LAUNCH
    case 'hostBlocked':
    case 'hostAbsent':
    case 'dependency':
    case 'unattributed':
    case 'vacant':
      return OTHER
    default:
      part satisfies never
      return OTHER
  }
}

/** The category code of each entry of the ledger, indexed like `partNames`. */
export const categoryOfPartCode: readonly number[] = partNames.map(categoryOfPart)

/**
 * The category of an event on a stream of the device or on a host thread. Communication has the category `unsplit`
 * until its waiting time is known.
 */
export function categoryOfKind(kind: number): number {
  switch (kind) {
    case Kind.memcpy:
      return COPY
    case Kind.communication:
      return UNSPLIT
    case Kind.wait:
      return WAIT
    case Kind.transfer:
      return TRANSFER
    // A host thread dispatches while it is in operators and calls. In host events of any other kind, such as
    // annotations, the thread does not dispatch.
    case Kind.launch:
    case Kind.runtime:
    case Kind.operator:
      return LAUNCH
    case Kind.synchronize:
    case Kind.annotation:
    case Kind.step:
    case Kind.frame:
      return OTHER
    default:
      return COMPUTE
  }
}
