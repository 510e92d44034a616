/** The only table component: names and alignment of columns, and the layout on narrow screens. */

import type { ComponentChildren } from 'preact'

export type Column<Row> = {
  readonly name: string
  readonly cell: (row: Row) => ComponentChildren
  /** Shown only to screen readers, because the cells explain themselves. */
  readonly isNameHidden?: boolean
  /** True for cells aligned to the right, with digits of equal width. */
  readonly isNumber?: boolean
  /** Hidden on a narrow screen. */
  readonly isWide?: boolean
  /** Further classes of the cells, such as colours. */
  readonly tone?: string | ((row: Row) => string)
  /** Classes of the column's head and cells. */
  readonly class?: string
  /**
   * Sorts the rows by this column. The direction is that of the current order, if the rows are sorted by this column
   * already.
   */
  readonly sort?: {
    readonly direction: 'ascending' | 'descending' | undefined
    readonly change: () => void
  }
}

type Props<Row> = {
  /** Undefined until they are known. */
  readonly rows: readonly Row[] | undefined
  readonly columns: readonly Column<Row>[]
  readonly keyOf: (row: Row) => string
  readonly caption: string
  /** Shown if there are no rows. */
  readonly empty: ComponentChildren
  /** On a phone each row is a card with all its columns, so that nothing has to be scrolled to. */
  readonly hasCards?: boolean
  readonly class?: string
  readonly rowClass?: (row: Row) => string
}

export function Table<Row>(props: Props<Row>) {
  const { rows, columns, keyOf } = props
  if (rows === undefined) return <p class="empty">Loading …</p>
  if (rows.length === 0) {
    return (
      <p class="empty" role="status">
        {props.empty}
      </p>
    )
  }
  return (
    <div class="scroll">
      <table class={classes('table', props.hasCards === true && 'cards', props.class)}>
        <caption class="hidden-text">{props.caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <Head key={column.name} column={column} />
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <Cells key={keyOf(row)} row={row} columns={columns} rowClass={props.rowClass} />
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Head<Row>({ column }: { readonly column: Column<Row> }) {
  const { name, sort } = column
  const className = classes(
    column.isNumber === true && 'number',
    column.isWide === true && 'wide',
    column.class,
  )
  if (sort === undefined) {
    return (
      <th scope="col" class={className}>
        {column.isNameHidden === true ? <span class="hidden-text">{name}</span> : name}
      </th>
    )
  }
  return (
    <th scope="col" class={className} aria-sort={sort.direction}>
      <button type="button" class="plain head" onClick={sort.change}>
        <span aria-hidden="true" class="head-sign">
          {sort.direction === undefined ? '' : sort.direction === 'ascending' ? '↑' : '↓'}
        </span>
        {name}
      </button>
    </th>
  )
}

/** A separate component, so that a signal read by one cell renders only that row. */
function Cells<Row>(props: {
  readonly row: Row
  readonly columns: readonly Column<Row>[]
  readonly rowClass: ((row: Row) => string) | undefined
}) {
  const { row, columns } = props
  return (
    <tr class={props.rowClass?.(row)}>
      {columns.map((column) => (
        <td
          key={column.name}
          data-name={column.isNameHidden === true ? undefined : column.name}
          class={classes(
            column.isNumber === true && 'num number',
            column.isWide === true && 'wide',
            column.class,
            typeof column.tone === 'function' ? column.tone(row) : column.tone,
          )}
        >
          {column.cell(row)}
        </td>
      ))}
    </tr>
  )
}

function classes(...names: readonly (string | false | undefined)[]): string {
  return names.filter(Boolean).join(' ')
}
