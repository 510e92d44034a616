/** Tags of an order (label and group) as the database stores them. An order without tags has no row. */

import type { EchoedTags } from '#domain/order-tags.ts'

/** Columns of `order_tags`, joined to another table. */
export type TagsRow = { readonly label: string | null; readonly order_group: string | null }

export function tagsOf({ label, order_group: group }: TagsRow): EchoedTags {
  return {
    ...(label === null ? {} : { label }),
    ...(group === null ? {} : { group }),
  }
}
