/** The contents of a tooltip. HTML elements store the contents of their tooltip as JSON in `data-tip`. */
export interface Description {
  readonly title: string
  readonly lines: readonly (readonly [label: string, value: string])[]
}
