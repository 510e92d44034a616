// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

import {IERC1155} from "@openzeppelin/contracts/token/ERC1155/IERC1155.sol";
import {IERC1155Receiver} from "@openzeppelin/contracts/token/ERC1155/IERC1155Receiver.sol";
import {ERC165} from "@openzeppelin/contracts/utils/introspection/ERC165.sol";
import {IERC165} from "@openzeppelin/contracts/utils/introspection/IERC165.sol";
import {CheckedMath} from "./CheckedMath.sol";

/// The ERC-1155 ledger of the conditional tokens. OpenZeppelin's ledger is not used, because all events and revert
/// reasons must equal those of the Gnosis Conditional Tokens. For example, a batch of one emits `TransferBatch`, and a
/// query of the zero address's balance reverts.
///
/// Balances always change before the receiver is called.
abstract contract ERC1155Ledger is ERC165, IERC1155 {
    using CheckedMath for uint256;

    mapping(uint256 id => mapping(address owner => uint256)) private _balances;
    mapping(address owner => mapping(address operator => bool)) private _operatorApprovals;

    function supportsInterface(bytes4 interfaceId)
        public
        view
        virtual
        override(ERC165, IERC165)
        returns (bool)
    {
        return interfaceId == type(IERC1155).interfaceId || super.supportsInterface(interfaceId);
    }

    function balanceOf(address owner, uint256 id) public view returns (uint256) {
        require(owner != address(0), "ERC1155: balance query for the zero address");
        return _balances[id][owner];
    }

    function balanceOfBatch(address[] calldata owners, uint256[] calldata ids)
        external
        view
        returns (uint256[] memory balances)
    {
        require(owners.length == ids.length, "ERC1155: owners and IDs must have same lengths");
        balances = new uint256[](owners.length);
        for (uint256 i = 0; i < owners.length; ++i) {
            require(
                owners[i] != address(0), "ERC1155: some address in batch balance query is zero"
            );
            balances[i] = _balances[ids[i]][owners[i]];
        }
    }

    function setApprovalForAll(address operator, bool approved) external {
        _setApprovalForAll(msg.sender, operator, approved);
    }

    function isApprovedForAll(address owner, address operator) public view returns (bool) {
        return _operatorApprovals[owner][operator];
    }

    function safeTransferFrom(
        address from,
        address to,
        uint256 id,
        uint256 value,
        bytes calldata data
    ) external {
        require(to != address(0), "ERC1155: target address must be non-zero");
        _requireMayMove(from);
        _move(from, to, id, value);
        emit TransferSingle(msg.sender, from, to, id, value);
        _checkReceived(from, to, id, value, data);
    }

    function safeBatchTransferFrom(
        address from,
        address to,
        uint256[] calldata ids,
        uint256[] calldata values,
        bytes calldata data
    ) external {
        require(ids.length == values.length, "ERC1155: IDs and values must have same lengths");
        require(to != address(0), "ERC1155: target address must be non-zero");
        _requireMayMove(from);
        for (uint256 i = 0; i < ids.length; ++i) {
            _move(from, to, ids[i], values[i]);
        }
        emit TransferBatch(msg.sender, from, to, ids, values);
        _checkBatchReceived(from, to, ids, values, data);
    }

    function _setApprovalForAll(address owner, address operator, bool approved) internal {
        _operatorApprovals[owner][operator] = approved;
        emit ApprovalForAll(owner, operator, approved);
    }

    function _mint(address to, uint256 id, uint256 value) internal {
        require(to != address(0), "ERC1155: mint to the zero address");
        _balances[id][to] = _balances[id][to].add(value);
        emit TransferSingle(msg.sender, address(0), to, id, value);
        _checkReceived(address(0), to, id, value, "");
    }

    /// Mints `values[i]` of `ids[i]` for each index.
    function _batchMint(address to, uint256[] memory ids, uint256[] memory values) internal {
        require(to != address(0), "ERC1155: batch mint to the zero address");
        for (uint256 i = 0; i < ids.length; ++i) {
            _balances[ids[i]][to] = _balances[ids[i]][to].add(values[i]);
        }
        emit TransferBatch(msg.sender, address(0), to, ids, values);
        _checkBatchReceived(address(0), to, ids, values, "");
    }

    function _burn(address owner, uint256 id, uint256 value) internal {
        _balances[id][owner] = _balances[id][owner].sub(value);
        emit TransferSingle(msg.sender, owner, address(0), id, value);
    }

    function _batchBurn(address owner, uint256[] memory ids, uint256[] memory values) internal {
        for (uint256 i = 0; i < ids.length; ++i) {
            _balances[ids[i]][owner] = _balances[ids[i]][owner].sub(values[i]);
        }
        emit TransferBatch(msg.sender, owner, address(0), ids, values);
    }

    function _requireMayMove(address from) private view {
        require(
            from == msg.sender || _operatorApprovals[from][msg.sender],
            "ERC1155: need operator approval for 3rd party transfers."
        );
    }

    function _move(address from, address to, uint256 id, uint256 value) private {
        _balances[id][from] = _balances[id][from].sub(value);
        _balances[id][to] = _balances[id][to].add(value);
    }

    function _checkReceived(
        address from,
        address to,
        uint256 id,
        uint256 value,
        bytes memory data
    ) private {
        if (to.code.length == 0) return;
        require(
            IERC1155Receiver(to).onERC1155Received(msg.sender, from, id, value, data)
                == IERC1155Receiver.onERC1155Received.selector,
            "ERC1155: got unknown value from onERC1155Received"
        );
    }

    function _checkBatchReceived(
        address from,
        address to,
        uint256[] memory ids,
        uint256[] memory values,
        bytes memory data
    ) private {
        if (to.code.length == 0) return;
        require(
            IERC1155Receiver(to).onERC1155BatchReceived(msg.sender, from, ids, values, data)
                == IERC1155Receiver.onERC1155BatchReceived.selector,
            "ERC1155: got unknown value from onERC1155BatchReceived"
        );
    }
}
