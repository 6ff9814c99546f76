/**
 * Shows the tooltips of elements with `data-tip` when the pointer is over the element, when the reader taps the
 * element, and while the element has the focus.
 */
import type { Description, Tooltip } from './dom.ts'

export function explainMarked(tooltip: Tooltip): void {
  let told: Element | null = null
  const markedAt = (target: EventTarget | null): Element | null =>
    target instanceof Element ? target.closest('[data-tip]') : null

  const tell = (marked: Element, x: number, y: number): void => {
    told = marked
    tooltip.show(JSON.parse(marked.getAttribute('data-tip') ?? '') as Description, x, y)
  }
  const forget = (): void => {
    if (told !== null) tooltip.hide()
    told = null
  }

  for (const type of ['pointermove', 'pointerdown'] as const)
    document.addEventListener(type, (event) => {
      const marked = markedAt(event.target)
      if (marked === null) forget()
      else tell(marked, event.clientX, event.clientY)
    })
  const tellFocused = (marked: Element): void => {
    const { left, width, bottom } = marked.getBoundingClientRect()
    tell(marked, left + width / 2, bottom)
  }
  document.addEventListener('focusin', ({ target }) => {
    const marked = markedAt(target)
    // If the pointer is on the element, the tooltip is already visible.
    if (marked?.matches(':focus-visible')) tellFocused(marked)
  })
  document.addEventListener('focusout', forget)
  document.addEventListener(
    'scroll',
    () => {
      // The browser scrolls to a focused element, so the tooltip is placed again.
      if (told?.matches(':focus-visible')) tellFocused(told)
      else forget()
    },
    { passive: true },
  )
  document.addEventListener('keydown', ({ key }) => {
    if (key === 'Escape') forget()
  })
}
