/** Words for the prices of an exclusive event. */

import type { EventDetail } from '#protocol/shapes/events.ts'
import { cents } from '../format.ts'

type Prices = NonNullable<EventDetail['prices']>

/**
 * Describes the profit that a trader can make because the YES prices do not add up to one dollar. Returns undefined if
 * there is no such profit.
 */
export function gapWords({ gap }: Pick<Prices, 'gap'>): string | undefined {
  if (gap > 0) return `Selling YES in every market earns ${cents(gap)} per share.`
  if (gap === 0) return undefined
  return `Buying YES in every market earns ${cents(-gap)} per share if YES wins in one of them.`
}

/** Returns the emoji of an event. An image is not shown, because only its hash is known. */
export function emojiOf({ image }: { readonly image: string }): string {
  return image.startsWith('0x') ? '' : image
}
