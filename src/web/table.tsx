/** The table component for all tables of the page: column names, alignment, and layout on narrow screens. */

import type { ComponentChildren } from 'preact'

export type Column<Row> = {
  readonly name: string
  readonly cell: (row: Row) => ComponentChildren
  /** True if only screen readers get the column's name, because the cells are clear without the name. */
  readonly isNameHidden?: boolean
  /** True for cells aligned to the right, with digits of equal width. */
  readonly isNumber?: boolean
  /** True if the column is hidden on a narrow screen. */
  readonly isWide?: boolean
  /** Further classes of the cells, such as colours. */
  readonly tone?: string | ((row: Row) => string)
  /** Classes of the column's head and cells. */
  readonly class?: string
  /**
   * Makes the table sortable by this column. `direction` is the current direction if the rows are sorted by this
   * column, otherwise undefined.
   */
  readonly sort?: {
    readonly direction: 'ascending' | 'descending' | undefined
    readonly change: () => void
  }
}

type Props<Row> = {
  /** The rows of the table; undefined until they are known. */
  readonly rows: readonly Row[] | undefined
  readonly columns: readonly Column<Row>[]
  readonly keyOf: (row: Row) => string
  readonly caption: string
  /** Content shown if there are no rows. */
  readonly empty: ComponentChildren
  /** True if each row becomes a card on a phone. A card shows all columns, so nothing has to be scrolled sideways. */
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

/**
 * The cells of a row. They are a separate component, so that a change of a signal in one cell renders only that row.
 */
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
