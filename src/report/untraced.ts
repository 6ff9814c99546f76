/** Lists the ranks without recorded work, because the recorded ranks may wait for them. */
import { rankNames } from '../timeline/ranges.ts'
import type { AuditDocument } from './document.ts'
import { plural } from './format.ts'

type Untraced = NonNullable<AuditDocument['untraced']>

export const untracedNames = ({ ranks, unlisted }: Untraced): string =>
  ranks.length > 0 ? rankNames(ranks) : plural(unlisted, 'other rank')

/** A sentence without its full stop, such as `ranks 5-7 have no recorded work`. */
export const noWorkOf = (untraced: Untraced): string =>
  `${untracedNames(untraced)} ${untraced.ranks.length + untraced.unlisted === 1 ? 'has' : 'have'} no recorded work`
