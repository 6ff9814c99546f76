/**
 * Emphasises text on a terminal. A style does not change the visible width of a text, so that tables keep their
 * columns.
 */
export interface Style {
  readonly heading: (text: string) => string
  /** All is well. */
  readonly good: (text: string) => string
  /** The style for a finding or an error. */
  readonly bad: (text: string) => string
  readonly warning: (text: string) => string
  /** The style for details such as source lines and commands. */
  readonly faint: (text: string) => string
}

const same = (text: string): string => text

export const plain: Style = { heading: same, good: same, bad: same, warning: same, faint: same }

/** The lines of a table, whose header is emphasised. */
export const headed = ([header, ...rows]: readonly string[], { heading }: Style): string[] => [
  heading(header),
  ...rows,
]
